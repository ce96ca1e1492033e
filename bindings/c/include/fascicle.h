/* Fascicle's grids and collectives for C, C++ and whatever calls C.
 *
 * A program starts its ranks with fascicle_run. They are threads of the process, or the processes that mpirun or srun
 * started (a library built with the feature mpi). Every rank runs the same function, which opens groups along the axes of
 * the grid and calls collectives on its own memory.
 *
 * Functions return FASCICLE_OK or the kind of an error; fascicle_error describes the calling thread's last one. A rank
 * that fails ends the job: no rank waits for it longer than the timeout.
 *
 * Buffers are memory of the rank's device: memory of the host for the CPU, device memory of the primary context for CUDA
 * and ROCm. With a null stream, a call returns once its result is there. With a stream of the vendor (CUstream,
 * hipStream_t), it is queued behind that stream's work and returns at once; the CPU has no streams. Counts are in
 * elements. Handles belong to the thread that made them, and end with the function that fascicle_run runs. */
#ifndef FASCICLE_H
#define FASCICLE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  FASCICLE_OK = 0,
  FASCICLE_INVALID = 1,       /* a wrong argument or call */
  FASCICLE_UNSUPPORTED = 2,   /* an element type that the device lacks */
  FASCICLE_OUT_OF_MEMORY = 3, /* of the device */
  FASCICLE_MISMATCH = 4,      /* ranks have made different calls */
  FASCICLE_TIMEOUT = 5,       /* ranks did not arrive; the message names them */
  FASCICLE_ABORTED = 6,       /* another rank has failed */
  FASCICLE_VENDOR = 7,        /* a call of the vendor's libraries, or of MPI */
  FASCICLE_FAILED = 8         /* anything else, such as a status of the program's own */
} fascicle_status;

typedef enum {
  FASCICLE_F64 = 0,
  FASCICLE_F32 = 1,
  FASCICLE_BF16 = 2,
  FASCICLE_F16 = 3,
  FASCICLE_I32 = 4,
  FASCICLE_U32 = 5,
  FASCICLE_U8 = 6
} fascicle_dtype;

typedef enum { FASCICLE_SUM = 0, FASCICLE_MAX = 1, FASCICLE_MIN = 2, FASCICLE_AVG = 3 } fascicle_op;

typedef struct fascicle_rank fascicle_rank;       /* one rank's view of the job */
typedef struct fascicle_group fascicle_group;     /* one rank's end of a group along axes of the grid */
typedef struct fascicle_reducer fascicle_reducer; /* gradients summed in buckets while backward still runs */

/* Runs `body` once on each rank of a grid such as "x=2,data=4", and waits for all of them. A body that returns anything but
 * FASCICLE_OK ends the job with that status. */
fascicle_status fascicle_run(const char *grid, fascicle_status (*body)(const fascicle_rank *rank, void *data), void *data);

/* The calling thread's last error as one sentence; valid until its next call. */
const char *fascicle_error(void);

size_t fascicle_rank_index(const fascicle_rank *rank);
size_t fascicle_num_ranks(const fascicle_rank *rank);
/* This rank's index and the number of ranks along one axis: x, y, z, context, data, pipeline. */
fascicle_status fascicle_coordinate(const fascicle_rank *rank, const char *axis, size_t *index, size_t *degree);

/* The group of ranks that differ from this one only on the axes of a text such as "data", "data,z" or "all". Collective. */
fascicle_status fascicle_group_open(const fascicle_rank *rank, const char *axes, fascicle_group **group);
void fascicle_group_close(fascicle_group *group);
size_t fascicle_group_rank(const fascicle_group *group);
size_t fascicle_group_size(const fascicle_group *group);

/* Reduces over all ranks, in place. */
fascicle_status fascicle_all_reduce(const fascicle_group *group, void *buffer, size_t count, fascicle_dtype dtype,
                                    fascicle_op op, void *stream);
/* Rank i receives the sum of the i-th parts of `send`. `counts` holds the parts' lengths, one for each rank; null means that
 * all have `recv_count` elements. */
fascicle_status fascicle_reduce_scatter(const fascicle_group *group, const void *send, void *recv, size_t recv_count,
                                        const size_t *counts, fascicle_dtype dtype, void *stream);
/* Every rank receives the concatenation of all `send`. `counts` as above; null means that all have `send_count` elements. */
fascicle_status fascicle_all_gather(const fascicle_group *group, const void *send, size_t send_count, void *recv,
                                    const size_t *counts, fascicle_dtype dtype, void *stream);
/* Every rank receives the elements of rank `root` of the group, in place. */
fascicle_status fascicle_broadcast(const fascicle_group *group, void *buffer, size_t count, fascicle_dtype dtype, size_t root,
                                   void *stream);
/* Rank j receives the j-th part of every rank's `send`; all parts have `part_count` elements. */
fascicle_status fascicle_all_to_all(const fascicle_group *group, const void *send, void *recv, size_t part_count,
                                    fascicle_dtype dtype, void *stream);
/* A message to or from another rank of the group, of as many elements on both sides. */
fascicle_status fascicle_send(const fascicle_group *group, const void *buffer, size_t count, fascicle_dtype dtype, size_t to,
                              void *stream);
fascicle_status fascicle_recv(const fascicle_group *group, void *buffer, size_t count, fascicle_dtype dtype, size_t from,
                              void *stream);
/* Returns once all ranks of the group have called it. */
fascicle_status fascicle_barrier(const fascicle_group *group);

/* A reducer: every rank pushes the same gradients in the same order, as soon as each is computed, and calls finish. A
 * gradient is reduced in its own memory, which stays untouched from push to finish. Buckets of `bucket_bytes` (0: 25 MiB)
 * travel together; with `average` sums are divided by the number of ranks. An order that differs is FASCICLE_INVALID on
 * every rank. */
fascicle_status fascicle_reducer_open(const fascicle_group *group, size_t bucket_bytes, int average,
                                      fascicle_reducer **reducer);
fascicle_status fascicle_reducer_push(fascicle_reducer *reducer, const char *name, void *gradient, size_t count,
                                      fascicle_dtype dtype);
fascicle_status fascicle_reducer_finish(fascicle_reducer *reducer);
void fascicle_reducer_close(fascicle_reducer *reducer);

#ifdef __cplusplus
}
#endif

#endif
