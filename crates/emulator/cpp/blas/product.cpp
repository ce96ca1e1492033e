// The GEMM in blocks: both operands are packed into panels, and a tile of c stays in registers.
#include "product.h"

#include <algorithm>
#include <vector>

#include "epilogue.h"

namespace emulator {

#ifdef __AVX512F__
constexpr int vector_bytes = 64, columns = 8;
#else
constexpr int vector_bytes = 32, columns = 4;
#endif
constexpr std::int64_t depth_block = 256, row_block = 128, column_block = 256;

template <class Sum>
struct Tile {
    typedef Sum Vector __attribute__((vector_size(vector_bytes), aligned(sizeof(Sum))));
    static constexpr int lanes = vector_bytes / sizeof(Sum);
    static constexpr int rows = 2 * lanes;

    // sums (rows x columns, one column after the other) += a panel (rows wide) times b panel (columns wide).
    static void accumulate(std::int64_t depth, const Sum* a, const Sum* b, Sum* sums) {
        Vector low[columns], high[columns];
        for (int column = 0; column < columns; ++column) {
            low[column] = *reinterpret_cast<const Vector*>(sums + column * rows);
            high[column] = *reinterpret_cast<const Vector*>(sums + column * rows + lanes);
        }
        for (std::int64_t step = 0; step < depth; ++step, a += rows, b += columns) {
            const Vector first = *reinterpret_cast<const Vector*>(a), second = *reinterpret_cast<const Vector*>(a + lanes);
            for (int column = 0; column < columns; ++column) {
                low[column] += first * b[column];
                high[column] += second * b[column];
            }
        }
        for (int column = 0; column < columns; ++column) {
            *reinterpret_cast<Vector*>(sums + column * rows) = low[column];
            *reinterpret_cast<Vector*>(sums + column * rows + lanes) = high[column];
        }
    }
};

// Packs `count` vectors of `depth` elements into panels of `width`; `along` is the step from vector to vector, `down`
// the step within one. The last panel is padded with zeros.
template <class Element, class Sum>
void pack(const Element* from, std::int64_t along, std::int64_t down, std::int64_t count, std::int64_t depth, int width, Sum* to) {
    for (std::int64_t first = 0; first < count; first += width, to += width * depth) {
        const int present = static_cast<int>(std::min<std::int64_t>(width, count - first));
        if (present < width) std::fill(to, to + width * depth, Sum(0));
        const Element* panel = from + first * along;
        if (along == 1) {
            for (std::int64_t step = 0; step < depth; ++step)
                for (int index = 0; index < present; ++index) to[step * width + index] = static_cast<Sum>(panel[step * down + index]);
        } else {
            for (int index = 0; index < present; ++index)
                for (std::int64_t step = 0; step < depth; ++step) to[step * width + index] = static_cast<Sum>(panel[index * along + step * down]);
        }
    }
}

template <class Sum>
void pack_rows(const Operand& a, std::int64_t row, std::int64_t step, std::int64_t rows, std::int64_t depth, Sum* to) {
    const std::int64_t along = a.transposed ? a.leading : 1, down = a.transposed ? 1 : a.leading;
    with_float(a.type, [&](auto* type) {
        using Element = std::remove_pointer_t<decltype(type)>;
        pack(static_cast<const Element*>(a.data) + row * along + step * down, along, down, rows, depth, Tile<Sum>::rows, to);
    });
}

template <class Sum>
void pack_columns(const Operand& b, std::int64_t column, std::int64_t step, std::int64_t count, std::int64_t depth, Sum* to) {
    const std::int64_t along = b.transposed ? 1 : b.leading, down = b.transposed ? b.leading : 1;
    with_float(b.type, [&](auto* type) {
        using Element = std::remove_pointer_t<decltype(type)>;
        pack(static_cast<const Element*>(b.data) + column * along + step * down, along, down, count, depth, columns, to);
    });
}

template <class Sum, class Element>
void store(const Product& product, const Sum* sums, std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t count) {
    auto* c = static_cast<Element*>(product.c) + row + column * product.c_leading;
    const Sum alpha = static_cast<Sum>(product.alpha), beta = static_cast<Sum>(product.beta);
    for (std::int64_t j = 0; j < count; ++j)
        for (std::int64_t i = 0; i < rows; ++i) {
            const Sum value = alpha * sums[j * Tile<Sum>::rows + i];
            auto& target = c[i + j * product.c_leading];
            target = static_cast<Element>(beta == 0 ? value : value + beta * static_cast<Sum>(target));
        }
}

// As `store`, with an epilogue, element by element: tanh dominates the time.
template <class Element>
void store_finished(const Product& product, const Epilogue& epilogue, const float* sums, std::int64_t row, std::int64_t column,
                    std::int64_t rows, std::int64_t count) {
    const auto* old = static_cast<const Element*>(epilogue.old);
    auto* aux = static_cast<Element*>(epilogue.aux);
    const auto alpha = static_cast<float>(product.alpha), beta = static_cast<float>(product.beta);
    for (std::int64_t j = 0; j < count; ++j)
        for (std::int64_t i = 0; i < rows; ++i) {
            float value = alpha * sums[j * Tile<float>::rows + i];
            if (beta != 0) value += beta * static_cast<float>(old[row + i + (column + j) * epilogue.old_leading]);
            if (epilogue.bias) value += bias_at(epilogue, row + i);
            value = finish(epilogue, value, aux ? aux + row + i + (column + j) * epilogue.aux_leading : nullptr);
            static_cast<Element*>(product.c)[row + i + (column + j) * product.c_leading] = static_cast<Element>(value);
        }
}

template <class Sum>
struct Scratch {
    std::vector<Sum> a = std::vector<Sum>((row_block + Tile<Sum>::rows) * depth_block);
    std::vector<Sum> b = std::vector<Sum>((column_block + columns) * depth_block);
    std::vector<Sum> sums = std::vector<Sum>((row_block + Tile<Sum>::rows) * (column_block + columns));
};

template <class Sum>
void multiply_block(Scratch<Sum>& scratch, std::int64_t rows, std::int64_t count, std::int64_t depth) {
    constexpr int tile = Tile<Sum>::rows * columns;
    Sum* sums = scratch.sums.data();
    for (std::int64_t j = 0; j < count; j += columns)
        for (std::int64_t i = 0; i < rows; i += Tile<Sum>::rows, sums += tile)
            Tile<Sum>::accumulate(depth, scratch.a.data() + i * depth, scratch.b.data() + j * depth, sums);
}

template <class Sum>
void store_block(const Product& product, const Scratch<Sum>& scratch, std::int64_t row, std::int64_t column, std::int64_t rows,
                 std::int64_t count) {
    constexpr int tile = Tile<Sum>::rows * columns;
    const Sum* sums = scratch.sums.data();
    with_float(product.c_type, [&](auto* type) {
        using Element = std::remove_pointer_t<decltype(type)>;
        for (std::int64_t j = 0; j < count; j += columns)
            for (std::int64_t i = 0; i < rows; i += Tile<Sum>::rows, sums += tile)
                store<Sum, Element>(product, sums, row + i, column + j, std::min<std::int64_t>(Tile<Sum>::rows, rows - i),
                                    std::min<std::int64_t>(columns, count - j));
    });
}

// Separate from `store_block`, so that stores without an epilogue stay fast.
__attribute__((noinline)) static void finish_block(const Product& product, const Epilogue& epilogue, const Scratch<float>& scratch,
                                                   std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t count) {
    constexpr int tile = Tile<float>::rows * columns;
    const float* sums = scratch.sums.data();
    with_float(product.c_type, [&](auto* type) {
        using Element = std::remove_pointer_t<decltype(type)>;
        for (std::int64_t j = 0; j < count; j += columns)
            for (std::int64_t i = 0; i < rows; i += Tile<float>::rows, sums += tile)
                store_finished<Element>(product, epilogue, sums, row + i, column + j,
                                        std::min<std::int64_t>(Tile<float>::rows, rows - i), std::min<std::int64_t>(columns, count - j));
    });
}

template <class Sum>
void multiply_as(const Product& product, const Epilogue* epilogue) {
    static thread_local Scratch<Sum> scratch;
    for (std::int64_t column = 0; column < product.n; column += column_block)
        for (std::int64_t row = 0; row < product.m; row += row_block) {
            const auto count = std::min(column_block, product.n - column), rows = std::min(row_block, product.m - row);
            std::fill(scratch.sums.begin(), scratch.sums.end(), Sum(0));
            for (std::int64_t step = 0; step < product.k; step += depth_block) {
                const auto depth = std::min(depth_block, product.k - step);
                pack_rows(product.a, row, step, rows, depth, scratch.a.data());
                pack_columns(product.b, column, step, count, depth, scratch.b.data());
                multiply_block(scratch, rows, count, depth);
            }
            if constexpr (std::is_same_v<Sum, float>)
                if (epilogue) {
                    finish_block(product, *epilogue, scratch, row, column, rows, count);
                    continue;
                }
            store_block(product, scratch, row, column, rows, count);
        }
}

void multiply(const Product& product, const Epilogue* epilogue) {
    if (product.c_type == Type::F64) multiply_as<double>(product, nullptr);  // f64 has no epilogues
    else multiply_as<float>(product, epilogue);
}

}  // namespace emulator
