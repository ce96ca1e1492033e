/* Every function of fascicle.h with values that can be foretold, and mistakes with their statuses and sentences. On four
 * ranks, as threads or under mpirun. */
#include "fascicle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                       \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fprintf(stderr, "calls.c:%d: %s (%s)\n", __LINE__, #condition, fascicle_error());        \
      return FASCICLE_FAILED;                                                                  \
    }                                                                                          \
  } while (0)
#define OK(call) CHECK((call) == FASCICLE_OK)

static fascicle_status collectives(const fascicle_group *group) {
  size_t rank = fascicle_group_rank(group);
  double sum[2] = {(double)rank, 1};
  OK(fascicle_all_reduce(group, sum, 2, FASCICLE_F64, FASCICLE_SUM, NULL));
  CHECK(sum[0] == 6 && sum[1] == 4);
  int least = -(int)rank;
  OK(fascicle_all_reduce(group, &least, 1, FASCICLE_I32, FASCICLE_MIN, NULL));
  CHECK(least == -3);
  float mean = (float)rank;
  OK(fascicle_all_reduce(group, &mean, 1, FASCICLE_F32, FASCICLE_AVG, NULL));
  CHECK(mean == 1.5f);

  float send[10], part[3] = {0}, all[10];
  for (int index = 0; index < 10; ++index) send[index] = (float)index;
  /* Parts of 4, 0, 3 and 3 elements. */
  const size_t counts[4] = {4, 0, 3, 3};
  float parts[4] = {0};
  OK(fascicle_reduce_scatter(group, send, parts, counts[rank], counts, FASCICLE_F32, NULL));
  if (rank == 3) CHECK(parts[0] == 28 && parts[2] == 36);
  OK(fascicle_all_gather(group, parts, counts[rank], all, counts, FASCICLE_F32, NULL));
  for (int index = 0; index < 10; ++index) CHECK(all[index] == 4.0f * (float)index);
  OK(fascicle_reduce_scatter(group, send, part, 2, NULL, FASCICLE_F32, NULL));
  CHECK(part[0] == 8 * (float)rank && part[1] == 8 * (float)rank + 4 && part[2] == 0);
  OK(fascicle_all_gather(group, part, 2, all, NULL, FASCICLE_F32, NULL));
  CHECK(all[7] == 28);

  unsigned char byte = (unsigned char)rank;
  OK(fascicle_broadcast(group, &byte, 1, FASCICLE_U8, 2, NULL));
  CHECK(byte == 2);
  unsigned to[4], from[4];
  for (unsigned index = 0; index < 4; ++index) to[index] = 10 * (unsigned)rank + index;
  OK(fascicle_all_to_all(group, to, from, 1, FASCICLE_U32, NULL));
  for (unsigned index = 0; index < 4; ++index) CHECK(from[index] == 10 * index + rank);
  double message = 1.5;
  if (rank == 0) OK(fascicle_send(group, &message, 1, FASCICLE_F64, 3, NULL));
  message = 0;
  if (rank == 3) OK(fascicle_recv(group, &message, 1, FASCICLE_F64, 0, NULL));
  if (rank == 3) CHECK(message == 1.5);
  return fascicle_barrier(group);
}

static fascicle_status reducers(const fascicle_group *group) {
  size_t rank = fascicle_group_rank(group);
  fascicle_reducer *reducer;
  OK(fascicle_reducer_open(group, 16, 1, &reducer));
  float a[5], b = (float)rank;
  for (int index = 0; index < 5; ++index) a[index] = (float)(index + (int)rank);
  OK(fascicle_reducer_push(reducer, "a", a, 5, FASCICLE_F32));
  OK(fascicle_reducer_push(reducer, "b", &b, 1, FASCICLE_F32));
  OK(fascicle_reducer_finish(reducer));
  for (int index = 0; index < 5; ++index) CHECK(a[index] == (float)index + 1.5f);
  CHECK(b == 1.5f);
  /* The last rank pushes another gradient. */
  OK(fascicle_reducer_push(reducer, rank == 3 ? "other" : "same", &b, 1, FASCICLE_F32));
  CHECK(fascicle_reducer_finish(reducer) == FASCICLE_INVALID);
  CHECK(strstr(fascicle_error(), "same (1 of f32)") && strstr(fascicle_error(), "other (1 of f32)"));
  fascicle_reducer_close(reducer);
  return FASCICLE_OK;
}

static fascicle_status mistakes(const fascicle_rank *rank, const fascicle_group *group) {
  float number = 0;
  fascicle_group *none = NULL;
  CHECK(fascicle_group_open(rank, "rows", &none) == FASCICLE_INVALID && strstr(fascicle_error(), "rows"));
  CHECK(fascicle_group_open(rank, NULL, &none) == FASCICLE_INVALID && !none);
  CHECK(!strcmp(fascicle_error(), "axes: null, needs a text"));
  CHECK(fascicle_all_reduce(NULL, &number, 1, FASCICLE_F32, FASCICLE_SUM, NULL) == FASCICLE_INVALID);
  CHECK(fascicle_all_reduce(group, &number, 1, (fascicle_dtype)9, FASCICLE_SUM, NULL) == FASCICLE_INVALID);
  CHECK(!strcmp(fascicle_error(), "fascicle_dtype: 9, needs a number from 0 to 6"));
  CHECK(fascicle_all_reduce(group, (char *)&number + 1, 1, FASCICLE_F32, FASCICLE_SUM, NULL) == FASCICLE_INVALID);
  CHECK(fascicle_all_reduce(group, NULL, 1, FASCICLE_F32, FASCICLE_SUM, NULL) == FASCICLE_INVALID);
  CHECK(fascicle_all_reduce(group, &number, 1, FASCICLE_F32, FASCICLE_SUM, &number) == FASCICLE_INVALID);
  CHECK(strstr(fascicle_error(), "needs a device of CUDA or ROCm"));
  CHECK(fascicle_all_reduce(group, &number, 1, FASCICLE_I32, FASCICLE_AVG, NULL) == FASCICLE_INVALID);
  CHECK(!strcmp(fascicle_error(), "all_reduce: an average of i32, needs a float type"));
  CHECK(fascicle_broadcast(group, &number, 1, FASCICLE_F32, 4, NULL) == FASCICLE_INVALID);
  CHECK(strstr(fascicle_error(), "rank 4, needs a rank below 4"));
  const size_t large[4] = {(size_t)-1, 2, 0, 0};
  CHECK(fascicle_all_gather(group, &number, 1, &number, large, FASCICLE_F32, NULL) == FASCICLE_INVALID);
  CHECK(fascicle_coordinate(rank, "sideways", NULL, NULL) == FASCICLE_INVALID);
  return FASCICLE_OK;
}

static fascicle_status body(const fascicle_rank *rank, void *data) {
  (void)data;
  size_t index, degree;
  OK(fascicle_coordinate(rank, "data", &index, &degree));
  CHECK(degree == 4 && index == fascicle_rank_index(rank) && fascicle_num_ranks(rank) == 4);
  fascicle_group *group, *all;
  OK(fascicle_group_open(rank, "data", &group));
  OK(fascicle_group_open(rank, "all", &all));
  CHECK(fascicle_group_size(group) == 4 && fascicle_group_size(all) == 4);
  OK(collectives(group));
  OK(collectives(all));
  OK(reducers(group));
  OK(mistakes(rank, group));
  fascicle_group_close(all);
  fascicle_group_close(group);
  return FASCICLE_OK;
}

int main(void) {
  if (fascicle_run("data=four", body, NULL) != FASCICLE_INVALID || !strstr(fascicle_error(), "data=four")) return 2;
  if (fascicle_run("data=4", NULL, NULL) != FASCICLE_INVALID) return 3;
  fascicle_status status = fascicle_run("data=4", body, NULL);
  if (status != FASCICLE_OK) fprintf(stderr, "calls: %s\n", fascicle_error());
  return status;
}
