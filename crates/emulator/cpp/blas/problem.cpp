#include "problem.h"

namespace emulator {

Outcome read_problem(const Described& described, Problem& problem) {
    TRY(read_operation(described.operation, problem.operation));
    TRY(read_layout(described.a, problem.a));
    TRY(read_layout(described.b, problem.b));
    TRY(read_layout(described.c, problem.c));
    return read_layout(described.d, problem.d);
}

static Outcome check_layout(const char* name, const Layout& layout, std::uint64_t rows, std::uint64_t columns, int batch) {
    if (layout.rows != rows || layout.columns != columns)
        return misuse(Outcome::InvalidValue, "%s is %lu x %lu, the others make it %lu x %lu", name, layout.rows, layout.columns, rows, columns);
    if (layout.leading < 0 || static_cast<std::uint64_t>(layout.leading) < rows)
        return misuse(Outcome::InvalidValue, "leading dimension %ld of %s, %lu rows", layout.leading, name, rows);
    if (layout.batch < 1 || layout.batch != batch || layout.stride < 0)
        return misuse(Outcome::InvalidValue, "%s has a batch of %d with stride %ld, d one of %d", name, layout.batch, layout.stride, batch);
    return rows > INT32_MAX || columns > INT32_MAX ? Outcome::NotSupported : Outcome::Success;
}

static Outcome check_layouts(const Problem& problem) {
    const auto& [operation, a, b, c, d] = problem;
    const auto m = d.rows, n = d.columns, k = operation.a_transposed ? a.rows : a.columns;
    TRY(check_layout("a", a, operation.a_transposed ? k : m, operation.a_transposed ? m : k, d.batch));
    TRY(check_layout("b", b, operation.b_transposed ? n : k, operation.b_transposed ? k : n, d.batch));
    TRY(check_layout("c", c, m, n, d.batch));
    TRY(check_layout("d", d, m, n, d.batch));
    if (d.batch > 1 && d.stride == 0) return misuse(Outcome::InvalidValue, "a batch of %d is written to one place", d.batch);
    return m == 0 || n == 0 || k == 0 ? Outcome::NotSupported : Outcome::Success;
}

// There is no GEMM here for f64, for integers, or for two different types.
static bool has_types(const Problem& problem) {
    const auto input = problem.a.type, output = problem.d.type;
    const bool known = input == Type::F32 || input == Type::F16 || input == Type::Bf16;
    return known && problem.operation.compute == Type::F32 && problem.b.type == input && problem.c.type == output &&
           (output == input || output == Type::F32);
}

static bool has_epilogue(const Problem& problem) {
    switch (problem.operation.epilogue) {
        case 1: return true;
        case 4: case 32: case 36: case 160: case 164: case 192: break;
        default: return false;
    }
    const bool bias = !problem.has_bias() || problem.bias_type() == problem.d.type || problem.bias_type() == Type::F32;
    const bool aux = !problem.has_aux() || problem.operation.aux_type.value_or(problem.d.type) == problem.d.type;
    return bias && aux && problem.d.batch == 1;
}

Outcome check_problem(const Problem& problem) {
    TRY(check_layouts(problem));
    if (!has_types(problem) || !has_epilogue(problem)) return Outcome::NotSupported;
    const auto leading = problem.operation.aux_leading;
    if (problem.has_aux() && (leading % 8 != 0 || leading < problem.m()))
        return misuse(Outcome::InvalidValue, "aux has a leading dimension of %ld: no multiple of 8, or less than %ld rows", leading, problem.m());
    return Outcome::Success;
}

static void mix(std::uint64_t& hash, std::uint64_t number) {
    hash = (hash ^ number) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
}

static void mix(std::uint64_t& hash, const Layout& layout) {
    for (const auto number : {static_cast<std::uint64_t>(layout.type), layout.rows, layout.columns, static_cast<std::uint64_t>(layout.leading),
                              static_cast<std::uint64_t>(layout.batch), static_cast<std::uint64_t>(layout.stride)})
        mix(hash, number);
}

std::uint64_t fingerprint_of(const Problem& problem, std::uint64_t seed) {
    std::uint64_t hash = seed;
    const auto& operation = problem.operation;
    mix(hash, operation.epilogue);
    mix(hash, operation.a_transposed + 2 * operation.b_transposed);
    mix(hash, static_cast<std::uint64_t>(operation.compute));
    if (problem.has_bias()) mix(hash, static_cast<std::uint64_t>(problem.bias_type()));
    if (problem.has_aux()) mix(hash, static_cast<std::uint64_t>(operation.aux_leading));
    for (const auto* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) mix(hash, *layout);
    return hash;
}

}  // namespace emulator
