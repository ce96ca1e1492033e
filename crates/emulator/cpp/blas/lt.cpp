#include "lt.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "../core/memory.h"
#include "pace.h"
#include "problem.h"
#include "workspace.h"

namespace emulator {

// Every address has at least this alignment.
constexpr std::uint64_t least_alignment = 16;
constexpr std::uint64_t workspace_alignment = 256;
// The bytes of workspace that each algorithm needs, in the order in which a search finds them.
constexpr std::size_t needed_workspaces[] = {1 << 20, 0, 4 << 20, 0};
// Marks the choice of the first algorithm; those of the others follow.
constexpr std::uint32_t first_mark = 0x4c740000;

// The algorithm's number from 0 on.
static std::size_t algorithm_of(const Choice& choice) { return choice.mark - first_mark; }

static bool aligned(std::uint64_t address, std::uint64_t alignment) { return address % alignment == 0; }
static std::uint64_t as_number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

static std::uint64_t fingerprint_of(const Problem& problem, const Choice& choice) {
    std::uint64_t seed = 0;
    std::memcpy(&seed, choice.alignments, sizeof choice.alignments);
    return fingerprint_of(problem, seed << 32 | choice.mark);
}

Outcome choose(void* handle, const Described& described, const void* preference, std::size_t asked, std::vector<Found>& found) {
    BlasRef blas;
    Problem problem;
    Preference preferred;
    Choice choice;
    TRY(find_blas(handle, blas, Library::Light));
    TRY(check_device_of(blas));
    TRY(read_problem(described, problem));
    TRY(read_preference(preference, preferred));
    TRY(check_problem(problem));
    for (std::size_t matrix = 0; matrix < 4; ++matrix) {
        if (preferred.alignments[matrix] < least_alignment) return Outcome::NotSupported;
        choice.alignments[matrix] = static_cast<std::uint8_t>(std::countr_zero(preferred.alignments[matrix]));
    }
    const auto& operation = problem.operation;
    if (problem.has_bias() && !aligned(operation.bias, least_alignment)) return Outcome::NotSupported;
    if (problem.has_aux() && !aligned(operation.aux, least_alignment)) return Outcome::NotSupported;
    choice.mark = first_mark;
    for (const auto needed : needed_workspaces) {
        choice.fingerprint = fingerprint_of(problem, choice);
        if (needed <= preferred.workspace && found.size() < asked) found.push_back({choice, needed});
        ++choice.mark;
    }
    return Outcome::Success;
}

// A matrix as a call passes it.
struct Placed {
    const char* name;
    const void* data;
    const Layout& layout;
    std::uint64_t alignment;
};

static Outcome check_placed(const ContextRef& context, const Placed& matrix) {
    const auto& layout = matrix.layout;
    TRY(check_matrix(context, matrix.name, matrix.data, layout.type, static_cast<std::int64_t>(layout.rows),
                     static_cast<std::int64_t>(layout.columns), layout.leading, layout.stride, layout.batch));
    if (aligned(as_number(matrix.data), matrix.alignment)) return Outcome::Success;
    return misuse(Outcome::NotSupported, "%s at %p is not aligned to the %lu bytes that its algorithm was chosen for", matrix.name,
                  matrix.data, matrix.alignment);
}

static Outcome check_epilogue(const ContextRef& context, const Problem& problem) {
    const auto& operation = problem.operation;
    const Layout bias{problem.bias_type(), problem.d.rows, 1, problem.m()};
    const Layout aux{problem.d.type, problem.d.rows, problem.d.columns, operation.aux_leading};
    if (problem.has_bias()) TRY(check_placed(context, {"bias", reinterpret_cast<const void*>(operation.bias), bias, least_alignment}));
    if (problem.has_aux()) TRY(check_placed(context, {"aux", reinterpret_cast<const void*>(operation.aux), aux, least_alignment}));
    return Outcome::Success;
}

static Outcome check_choice(const Problem& problem, const void* algo, Choice& choice) {
    if (!algo) return misuse(Outcome::InvalidValue, "there is no algorithm");
    std::memcpy(&choice, algo, sizeof choice);
    const bool marked = algorithm_of(choice) < std::size(needed_workspaces);
    if (marked && choice.fingerprint == fingerprint_of(problem, choice)) return Outcome::Success;
    return misuse(Outcome::InvalidValue, "the algorithm was not chosen for this product");
}

static Outcome check_workspace(const ContextRef& context, const Addresses& at, const Choice& choice) {
    const std::size_t needed = needed_workspaces[algorithm_of(choice)];
    if (at.workspace_bytes < needed)
        return misuse(Outcome::InvalidValue, "a workspace of %zu bytes, the algorithm needs %zu", at.workspace_bytes, needed);
    if (at.workspace_bytes == 0) return Outcome::Success;
    const auto address = as_number(at.workspace);
    TRY(outcome_of(check_range(context, address, at.workspace_bytes, false, "the workspace")));
    Region region;
    if (!find_region(address, region) || region.place != Place::Device)
        return misuse(Outcome::InvalidValue, "the workspace at %p is not on a device", at.workspace);
    if (aligned(address, workspace_alignment)) return Outcome::Success;
    return misuse(Outcome::InvalidValue, "the workspace at %p is not aligned to %lu bytes", at.workspace, workspace_alignment);
}

static Outcome check_addresses(const ContextRef& context, const Problem& problem, const Addresses& at, const Choice& choice, bool reads_c) {
    const auto promised = [&](int matrix) { return 1ull << choice.alignments[matrix]; };
    TRY(check_placed(context, {"a", at.a, problem.a, promised(0)}));
    TRY(check_placed(context, {"b", at.b, problem.b, promised(1)}));
    if (reads_c) TRY(check_placed(context, {"c", at.c, problem.c, promised(2)}));
    TRY(check_placed(context, {"d", at.d, problem.d, promised(3)}));
    if (reads_c && at.c == at.d && (problem.c.leading != problem.d.leading || problem.c.stride != problem.d.stride))
        return misuse(Outcome::InvalidValue, "c and d are one matrix with two layouts");
    return check_epilogue(context, problem);
}

// The GEMM and its epilogue, without the batch.
struct Task {
    Problem problem;
    Product product;
    Epilogue epilogue;
    bool plain;
    Workspace workspace;
    std::size_t algorithm;
};

static Task task_of(const Problem& problem, const Addresses& at, float alpha, float beta) {
    const auto& [operation, a, b, c, d] = problem;
    Task task{problem, {}, {}, false, {}, 0};
    task.product = {problem.m(), problem.n(), problem.k(), alpha, beta, {at.a, a.type, a.leading, operation.a_transposed},
                    {at.b, b.type, b.leading, operation.b_transposed}, at.d, d.type, d.leading};
    task.epilogue = {at.c, c.leading, nullptr, problem.bias_type(), problem.curve(), nullptr, operation.aux_leading};
    if (problem.has_bias()) task.epilogue.bias = reinterpret_cast<const void*>(operation.bias);
    if (problem.has_aux()) task.epilogue.aux = reinterpret_cast<void*>(operation.aux);
    task.plain = operation.epilogue == 1 && (beta == 0 || at.c == at.d);
    return task;
}

static Touches touches_of(const Task& task, bool reads_c) {
    const auto& [operation, a, b, c, d] = task.problem;
    auto matrix = [](const void* data, const Layout& of, bool writes) {
        return matrix_touch(data, of.type, static_cast<std::int64_t>(of.rows), static_cast<std::int64_t>(of.columns), of.leading,
                            of.stride, of.batch, writes);
    };
    Touches touches{matrix(task.product.a.data, a, false), matrix(task.product.b.data, b, false), matrix(task.product.c, d, true),
                    {as_number(task.workspace.start), task.workspace.bytes, true}};
    if (reads_c) touches.push_back(matrix(task.epilogue.old, c, false));
    if (task.epilogue.bias) touches.push_back({as_number(task.epilogue.bias), d.rows * size_of(task.problem.bias_type()), false});
    const Layout aux{d.type, d.rows, d.columns, task.epilogue.aux_leading};
    if (task.epilogue.aux) touches.push_back(matrix(task.epilogue.aux, aux, task.epilogue.curve == Curve::Gelu));
    return touches;
}

static Status run_task(const Task& task) {
    const auto token = task.workspace.take();
    const auto& [operation, a, b, c, d] = task.problem;
    keep_pace(task.algorithm + 1);
    for (std::int64_t index = 0; index < d.batch; ++index) {
        Product product = task.product;
        Epilogue epilogue = task.epilogue;
        product.a.data = advance(product.a.data, index * a.stride, a.type);
        product.b.data = advance(product.b.data, index * b.stride, b.type);
        product.c = advance(product.c, index * d.stride, d.type);
        epilogue.old = advance(epilogue.old, index * c.stride, c.type);
        multiply(product, task.plain ? nullptr : &epilogue);
    }
    return task.workspace.give_back(token);
}

Outcome queue_matmul(void* handle, const Described& described, const Addresses& at, const void* algo) {
    BlasRef blas;
    Problem problem;
    Choice choice;
    StreamRef stream;
    TRY(find_blas(handle, blas, Library::Light));
    TRY(check_device_of(blas));
    TRY(read_problem(described, problem));
    TRY(check_choice(problem, algo, choice));
    TRY(stream_of(blas->context, at.stream, stream));
    if (!at.alpha || !at.beta) return misuse(Outcome::InvalidValue, "alpha or beta is null");
    float alpha = 0, beta = 0;
    std::memcpy(&alpha, at.alpha, sizeof alpha);
    std::memcpy(&beta, at.beta, sizeof beta);
    TRY(check_addresses(blas->context, problem, at, choice, beta != 0));
    TRY(check_workspace(blas->context, at, choice));
    auto task = task_of(problem, at, alpha, beta);
    task.algorithm = algorithm_of(choice);
    if (needed_workspaces[task.algorithm] > 0) task.workspace = {static_cast<unsigned char*>(at.workspace), at.workspace_bytes};
    stream->submit([task] { return run_task(task); }, touches_of(task, beta != 0), current_symbol());
    return Outcome::Success;
}

}  // namespace emulator
