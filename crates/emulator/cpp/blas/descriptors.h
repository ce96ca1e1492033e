// The descriptors of cublasLt and hipblasLt: operations, layouts and preferences, each set attribute by attribute.
#pragma once

#include <array>
#include <optional>

#include "handle.h"

namespace emulator {

// A `MatmulDesc`.
struct Descriptor {
    Type compute;
    bool a_transposed = false, b_transposed = false;
    std::uint32_t epilogue = 1;
    std::uint64_t bias = 0, aux = 0;
    std::optional<Type> bias_type, aux_type;  // d's type by default
    std::int64_t aux_leading = 0;
};

// A `MatrixLayout`; the stride counts elements.
struct Layout {
    Type type;
    std::uint64_t rows, columns;
    std::int64_t leading;
    std::int32_t batch = 1;
    std::int64_t stride = 0;
};

// A `MatmulPreference`. The caller promises the alignments of a, b, c and d; HIP has no such promise.
struct Preference {
    std::uint64_t workspace = 0;
#ifdef EMULATOR_HIP
    std::array<std::uint32_t, 4> alignments{16, 16, 16, 16};
#else
    std::array<std::uint32_t, 4> alignments{256, 256, 256, 256};
#endif
};

// The vendors number attributes, operations and types differently. Here `Ignored` has no effect.
enum class OperationAttribute { Unknown, ATransposed, BTransposed, Epilogue, Bias, BiasType, Aux, AuxType, AuxLeading, PointerMode };
enum class LayoutAttribute { Unknown, Type, Order, Rows, Columns, Leading, Batch, Stride };
enum class PreferenceAttribute { Unknown, Ignored, Workspace, AAlignment, BAlignment, CAlignment, DAlignment };

struct Dialect {
    bool (*type_of)(int number, Type& type);
    bool (*compute_of)(int number, Type& type);
    int as_it_is;  // the operation that does not transpose; the next two do
};

Outcome create_operation(void** handle, int compute, int scalar, const Dialect& dialect);
Outcome create_layout(void** handle, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading, const Dialect& dialect);
Outcome create_preference(void** handle);

Outcome destroy_operation(const void* handle);
Outcome destroy_layout(const void* handle);
Outcome destroy_preference(const void* handle);

Outcome set_operation(const void* handle, OperationAttribute attribute, const void* value, std::size_t bytes, const Dialect& dialect);
Outcome set_layout(const void* handle, LayoutAttribute attribute, const void* value, std::size_t bytes, const Dialect& dialect);
Outcome set_preference(const void* handle, PreferenceAttribute attribute, const void* value, std::size_t bytes);

// The current state of a descriptor.
Outcome read_operation(const void* handle, Descriptor& operation);
Outcome read_layout(const void* handle, Layout& layout);
Outcome read_preference(const void* handle, Preference& preference);

}  // namespace emulator
