#include "descriptors.h"

#include "../core/live.h"

namespace emulator {

static Table<Descriptor>& operations() {
    static auto* table = new Table<Descriptor>("matmul descriptor", 10);
    return *table;
}

static Table<Layout>& layouts() {
    static auto* table = new Table<Layout>("matrix layout", 11);
    return *table;
}

static Table<Preference>& preferences() {
    static auto* table = new Table<Preference>("matmul preference", 12);
    return *table;
}

template <class Object>
static Outcome give_descriptor(Table<Object>& table, void** handle, const Object& object) {
    static const bool counted =
        (count_live("descriptors", [] { return operations().size() + layouts().size() + preferences().size(); }), true);
    (void)counted;
    if (!handle) return misuse(Outcome::InvalidValue, "there is no place for the descriptor");
    *handle = table.template insert<void*>(std::make_shared<Object>(object));
    return Outcome::Success;
}

template <class Object>
static Outcome read_descriptor(Table<Object>& table, const void* handle, Object& object) {
    const auto found = table.find(handle);
    if (!found) return Outcome::InvalidValue;
    object = *found;
    return Outcome::Success;
}

// Changes a descriptor if its handle is valid and `change` succeeds.
template <class Object, class Change>
static Outcome change_descriptor(Table<Object>& table, const void* handle, Change change) {
    const auto found = table.find(handle);
    return found ? change(*found) : Outcome::InvalidValue;
}

template <class Number>
static Outcome read_number(const void* value, std::size_t bytes, Number& number) {
    if (!value || bytes != sizeof number)
        return misuse(Outcome::InvalidValue, "the attribute has %zu bytes, given are %zu at %p", sizeof number, bytes, value);
    std::memcpy(&number, value, sizeof number);
    return Outcome::Success;
}

// Reads a 32-bit number and stores its translation.
template <class Kept, class Translate>
static Outcome read_translated(const void* value, std::size_t bytes, Kept& kept, Translate translate) {
    std::int32_t number = 0;
    TRY(read_number(value, bytes, number));
    return translate(number, kept) ? Outcome::Success : misuse(Outcome::InvalidValue, "the attribute cannot be %d", number);
}

static Outcome unknown_attribute() { return misuse(Outcome::NotSupported, "the emulator does not have this attribute"); }

Outcome create_operation(void** handle, int compute, int scalar, const Dialect& dialect) {
    Descriptor operation{};
    Type type{};
    if (!dialect.compute_of(compute, operation.compute) || !dialect.type_of(scalar, type) || type != operation.compute)
        return misuse(Outcome::InvalidValue, "compute type %d with scalars of type %d", compute, scalar);
    return give_descriptor(operations(), handle, operation);
}

Outcome create_layout(void** handle, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading, const Dialect& dialect) {
    Layout layout{Type::F32, rows, columns, leading};
    if (!dialect.type_of(type, layout.type)) return misuse(Outcome::InvalidValue, "type %d", type);
    return give_descriptor(layouts(), handle, layout);
}

Outcome create_preference(void** handle) { return give_descriptor(preferences(), handle, Preference{}); }

Outcome destroy_operation(const void* handle) { return operations().remove(handle) ? Outcome::Success : Outcome::InvalidValue; }
Outcome destroy_layout(const void* handle) { return layouts().remove(handle) ? Outcome::Success : Outcome::InvalidValue; }
Outcome destroy_preference(const void* handle) { return preferences().remove(handle) ? Outcome::Success : Outcome::InvalidValue; }

Outcome read_operation(const void* handle, Descriptor& operation) { return read_descriptor(operations(), handle, operation); }
Outcome read_layout(const void* handle, Layout& layout) { return read_descriptor(layouts(), handle, layout); }
Outcome read_preference(const void* handle, Preference& preference) { return read_descriptor(preferences(), handle, preference); }

Outcome set_operation(const void* handle, OperationAttribute attribute, const void* value, std::size_t bytes, const Dialect& dialect) {
    auto transposed = [&](int number, bool& kept) {
        kept = number != dialect.as_it_is;
        return number >= dialect.as_it_is && number <= dialect.as_it_is + 2;
    };
    auto typed = [&](int number, std::optional<Type>& kept) { return dialect.type_of(number, kept.emplace()); };
    return change_descriptor(operations(), handle, [&](Descriptor& operation) {
        bool on_host = true;
        switch (attribute) {
            case OperationAttribute::ATransposed: return read_translated(value, bytes, operation.a_transposed, transposed);
            case OperationAttribute::BTransposed: return read_translated(value, bytes, operation.b_transposed, transposed);
            case OperationAttribute::Epilogue: return read_number(value, bytes, operation.epilogue);
            case OperationAttribute::Bias: return read_number(value, bytes, operation.bias);
            case OperationAttribute::BiasType: return read_translated(value, bytes, operation.bias_type, typed);
            case OperationAttribute::Aux: return read_number(value, bytes, operation.aux);
            case OperationAttribute::AuxType: return read_translated(value, bytes, operation.aux_type, typed);
            case OperationAttribute::AuxLeading: return read_number(value, bytes, operation.aux_leading);
            case OperationAttribute::PointerMode:
                return read_translated(value, bytes, on_host, [](int number, bool&) { return number == 0; });
            default: return unknown_attribute();
        }
    });
}

Outcome set_layout(const void* handle, LayoutAttribute attribute, const void* value, std::size_t bytes, const Dialect& dialect) {
    return change_descriptor(layouts(), handle, [&](Layout& layout) {
        bool by_columns = true;
        switch (attribute) {
            case LayoutAttribute::Type: return read_translated(value, bytes, layout.type, dialect.type_of);
            case LayoutAttribute::Order:
                return read_translated(value, bytes, by_columns, [](int number, bool&) { return number == 0; });
            case LayoutAttribute::Rows: return read_number(value, bytes, layout.rows);
            case LayoutAttribute::Columns: return read_number(value, bytes, layout.columns);
            case LayoutAttribute::Leading: return read_number(value, bytes, layout.leading);
            case LayoutAttribute::Batch: return read_number(value, bytes, layout.batch);
            case LayoutAttribute::Stride: return read_number(value, bytes, layout.stride);
            default: return unknown_attribute();
        }
    });
}

Outcome set_preference(const void* handle, PreferenceAttribute attribute, const void* value, std::size_t bytes) {
    return change_descriptor(preferences(), handle, [&](Preference& preference) {
        std::uint32_t number = 0;
        switch (attribute) {
            case PreferenceAttribute::Ignored: return read_number(value, bytes, number);
            case PreferenceAttribute::Workspace: return read_number(value, bytes, preference.workspace);
            case PreferenceAttribute::AAlignment: case PreferenceAttribute::BAlignment:
            case PreferenceAttribute::CAlignment: case PreferenceAttribute::DAlignment: {
                TRY(read_number(value, bytes, number));
                if (number == 0 || (number & (number - 1)) != 0)
                    return misuse(Outcome::InvalidValue, "an alignment of %u bytes is no power of two", number);
                const auto matrix = static_cast<int>(attribute) - static_cast<int>(PreferenceAttribute::AAlignment);
                preference.alignments[static_cast<std::size_t>(matrix)] = number;
                return Outcome::Success;
            }
            default: return unknown_attribute();
        }
    });
}

}  // namespace emulator
