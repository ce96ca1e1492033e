// Handles, descriptors and GEMMs with an epilogue: the functions that cuBLASLt and hipBLASLt have in common, under
// `LT(name)`.
//
// Included by each vendor's lt.cpp, behind its numbers: `dialect`, the attributes, `Algo` and `Heuristic`.
#pragma once

EXPORT Result LT(Create)(void** handle) {
    BLAS(code(Outcome::NotInitialized), { return create_blas(handle, Library::Light); });
}

EXPORT Result LT(Destroy)(void* handle) {
    static Symbol symbol(__func__);
    return enter_release(symbol, internal_error, [&] { return code(destroy_blas(handle, Library::Light)); });
}

EXPORT Result LT(MatmulDescCreate)(void** operation, int compute, int scalar) {
    BLAS(code(Outcome::OutOfMemory), { return create_operation(operation, compute, scalar, dialect); });
}

EXPORT Result LT(MatmulDescDestroy)(void* operation) {
    static Symbol symbol(__func__);
    return enter_release(symbol, internal_error, [&] { return code(destroy_operation(operation)); });
}

EXPORT Result LT(MatmulDescSetAttribute)(void* operation, int attribute, const void* value, std::size_t bytes) {
    BLAS(code(Outcome::InvalidValue), { return set_operation(operation, operation_attribute(attribute), value, bytes, dialect); });
}

EXPORT Result LT(MatrixLayoutCreate)(void** layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
    BLAS(code(Outcome::OutOfMemory), { return create_layout(layout, type, rows, columns, leading, dialect); });
}

EXPORT Result LT(MatrixLayoutDestroy)(void* layout) {
    static Symbol symbol(__func__);
    return enter_release(symbol, internal_error, [&] { return code(destroy_layout(layout)); });
}

EXPORT Result LT(MatrixLayoutSetAttribute)(void* layout, int attribute, const void* value, std::size_t bytes) {
    BLAS(code(Outcome::InvalidValue), { return set_layout(layout, layout_attribute(attribute), value, bytes, dialect); });
}

EXPORT Result LT(MatmulPreferenceCreate)(void** preference) {
    BLAS(code(Outcome::OutOfMemory), { return create_preference(preference); });
}

EXPORT Result LT(MatmulPreferenceDestroy)(void* preference) {
    static Symbol symbol(__func__);
    return enter_release(symbol, internal_error, [&] { return code(destroy_preference(preference)); });
}

EXPORT Result LT(MatmulPreferenceSetAttribute)(void* preference, int attribute, const void* value, std::size_t bytes) {
    BLAS(code(Outcome::InvalidValue), { return set_preference(preference, preference_attribute(attribute), value, bytes); });
}

EXPORT Result LT(Matmul)(void* handle, void* operation, const void* alpha, const void* a, void* a_layout, const void* b,
                          void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                          const Algo* algo, void* workspace, std::size_t workspace_bytes, void* stream) {
    BLAS(code(Outcome::ExecutionFailed), {
        return queue_matmul(handle, {operation, a_layout, b_layout, c_layout, d_layout},
                            {alpha, a, b, beta, c, d, workspace, workspace_bytes, stream}, algo);
    });
}
