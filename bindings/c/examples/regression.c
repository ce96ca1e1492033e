/* Data parallelism in C: each rank computes gradients of its own rows of a least-squares problem, a reducer sums them, and
 * all ranks take the same steps. The weights are compared with those of one rank.
 *
 *   gcc -Iinclude examples/regression.c -L../../target/c/debug -lfascicle -lm -o regression
 *   ./regression data=4                       ranks are threads of this process
 *   mpirun -n 4 ./regression data=4           a library built with the feature mpi: ranks are processes */
#include "fascicle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 24, FEATURES = 3, STEPS = 100 };

/* Ends a function with the status of a call that fails. */
#define TRY(call)                                  \
  do {                                             \
    fascicle_status status = (call);               \
    if (status != FASCICLE_OK) return status;      \
  } while (0)

static float feature(size_t row, size_t column) { return sinf((float)((row + 1) * (column + 2))); }

static float label(size_t row) { return 2 * feature(row, 0) - feature(row, 1) + 0.5f; }

/* The sums over some rows of the gradients of half the squared error. */
static void gradients(const float *weights, float bias, size_t first, size_t end, float *of_weights, float *of_bias) {
  memset(of_weights, 0, FEATURES * sizeof *of_weights);
  *of_bias = 0;
  for (size_t row = first; row < end; ++row) {
    float error = bias - label(row);
    for (size_t column = 0; column < FEATURES; ++column) error += weights[column] * feature(row, column);
    for (size_t column = 0; column < FEATURES; ++column) of_weights[column] += error * feature(row, column);
    *of_bias += error;
  }
}

static void step(float *weights, float *bias, const float *of_weights, float of_bias) {
  for (size_t column = 0; column < FEATURES; ++column) weights[column] -= 0.5f / ROWS * of_weights[column];
  *bias -= 0.5f / ROWS * of_bias;
}

static fascicle_status train(const fascicle_rank *rank, void *data) {
  (void)data;
  fascicle_group *group;
  fascicle_reducer *reducer;
  TRY(fascicle_group_open(rank, "data", &group));
  TRY(fascicle_reducer_open(group, 0, 0, &reducer));
  size_t index = fascicle_group_rank(group), size = fascicle_group_size(group);

  float weights[FEATURES] = {0}, bias = 0, of_weights[FEATURES], of_bias;
  for (int number = 0; number < STEPS; ++number) {
    gradients(weights, bias, ROWS * index / size, ROWS * (index + 1) / size, of_weights, &of_bias);
    TRY(fascicle_reducer_push(reducer, "weights", of_weights, FEATURES, FASCICLE_F32));
    TRY(fascicle_reducer_push(reducer, "bias", &of_bias, 1, FASCICLE_F32));
    TRY(fascicle_reducer_finish(reducer));
    step(weights, &bias, of_weights, of_bias);
  }

  float alone[FEATURES] = {0}, alone_bias = 0, difference = 0;
  for (int number = 0; number < STEPS; ++number) {
    gradients(alone, alone_bias, 0, ROWS, of_weights, &of_bias);
    step(alone, &alone_bias, of_weights, of_bias);
  }
  for (size_t column = 0; column < FEATURES; ++column) difference = fmaxf(difference, fabsf(weights[column] - alone[column]));
  difference = fmaxf(difference, fabsf(bias - alone_bias));
  TRY(fascicle_all_reduce(group, &difference, 1, FASCICLE_F32, FASCICLE_MAX, NULL));
  if (fascicle_rank_index(rank) == 0)
    printf("%zu ranks: weights %.4f %.4f %.4f, bias %.4f; %.1e from one rank's\n", size, weights[0], weights[1], weights[2],
           bias, difference);
  fascicle_reducer_close(reducer);
  fascicle_group_close(group);
  return difference < 1e-6f ? FASCICLE_OK : FASCICLE_FAILED;
}

int main(int argc, char **argv) {
  fascicle_status status = fascicle_run(argc > 1 ? argv[1] : "data=4", train, NULL);
  if (status != FASCICLE_OK) fprintf(stderr, "%s\n", fascicle_error());
  return status;
}
