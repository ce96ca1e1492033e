/* What a reducer costs in C beside one bare all-reduce of as many bytes, in turn: for each size the median of the all-reduce in
 * microseconds, and the median of the reducer's quotients by it, with their quartiles.
 *
 *   ./overhead RANKS TURNS                  ranks are threads of this process
 *   mpirun -n RANKS ./overhead RANKS TURNS  a library built with the feature mpi: ranks are processes */
#define _POSIX_C_SOURCE 199309L
#include "fascicle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_GRADIENTS = 32, WARM_UP = 2 };

/* Ends a function with the status of a call that fails. */
#define TRY(call)                                  \
  do {                                             \
    fascicle_status status = (call);               \
    if (status != FASCICLE_OK) return status;      \
  } while (0)

/* A transformer's parameters in as many elements: norms, biases, and matrices that hold nearly all. */
static int lengths(size_t total, size_t *counts) {
  int blocks = total < 1 << 16 ? 1 : 4, number = 0;
  size_t width = (size_t)sqrt((double)(total / (12 * blocks))), rest = total;
  for (int block = 0; block < blocks; ++block)
    for (int index = 0; index < 4; ++index) rest -= counts[number++] = (size_t[]){width, 4 * width, width, 1}[index];
  for (int matrix = 0; matrix < 4 * blocks; ++matrix)
    counts[number++] = rest / (4 * blocks) + (matrix ? 0 : rest % (4 * blocks));
  return number;
}

static int ascending(const void *one, const void *other) {
  double difference = *(const double *)one - *(const double *)other;
  return (difference > 0) - (difference < 0);
}

static double quartile(double *numbers, int count, int quarter) {
  qsort(numbers, count, sizeof *numbers, ascending);
  return numbers[(count - 1) * quarter / 4];
}

static fascicle_status reduce(fascicle_reducer *reducer, float *gradients, const size_t *counts, int number) {
  char name[16];
  for (int index = 0; index < number; ++index) {
    snprintf(name, sizeof name, "p%d", index);
    TRY(fascicle_reducer_push(reducer, name, gradients, counts[index], FASCICLE_F32));
    gradients += counts[index];
  }
  return fascicle_reducer_finish(reducer);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

static fascicle_status measure(const fascicle_rank *rank, void *data) {
  int turns = *(const int *)data;
  fascicle_group *group;
  TRY(fascicle_group_open(rank, "data", &group));
  for (int size = 0; size < 5; ++size) {
    size_t bytes = (size_t[]){4 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20}[size], counts[MOST_GRADIENTS];
    int number = lengths(bytes / 4, counts);
    int repeats = bytes < 4 << 20 ? (4 << 20) / (int)bytes : 1;
    if (repeats > 100) repeats = 100;
    fascicle_reducer *reducer;
    TRY(fascicle_reducer_open(group, 0, 0, &reducer));
    float *buffer = malloc(bytes);
    double *times = malloc(2 * turns * sizeof *times), *quotients = times + turns;
    if (!buffer || !times) return FASCICLE_OUT_OF_MEMORY;
    memset(buffer, 0, bytes);
    for (int turn = -WARM_UP; turn < turns; ++turn) {
      double own[2];
      for (int step = 0; step < 2; ++step) {
        int way = (turn + step) & 1;
        TRY(fascicle_barrier(group));
        double start = now();
        for (int repeat = 0; repeat < repeats; ++repeat)
          TRY(way ? reduce(reducer, buffer, counts, number)
                  : fascicle_all_reduce(group, buffer, bytes / 4, FASCICLE_F32, FASCICLE_SUM, NULL));
        TRY(fascicle_barrier(group));
        own[way] = (now() - start) / repeats;
      }
      if (turn < 0) continue;
      times[turn] = own[0];
      quotients[turn] = own[1] / own[0];
    }
    double middle = quartile(times, turns, 2);
    if (fascicle_group_rank(group) == 0)
      printf("%10zu %10.1f us   C %.2f (%.2f-%.2f)\n", bytes, 1e6 * middle, quartile(quotients, turns, 2),
             quartile(quotients, turns, 1), quartile(quotients, turns, 3));
    free(buffer);
    free(times);
    fascicle_reducer_close(reducer);
  }
  fascicle_group_close(group);
  return FASCICLE_OK;
}

int main(int argc, char **argv) {
  char grid[32];
  int turns = argc > 2 ? atoi(argv[2]) : 41;
  snprintf(grid, sizeof grid, "data=%d", argc > 1 ? atoi(argv[1]) : 2);
  if (turns < 1) turns = 1;
  fascicle_status status = fascicle_run(grid, measure, &turns);
  if (status != FASCICLE_OK) fprintf(stderr, "%s\n", fascicle_error());
  return status;
}
