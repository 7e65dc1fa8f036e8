/* clock.h -- wall and monotonic time, replaceable by tests. */
#ifndef OTLITE_CLOCK_H
#define OTLITE_CLOCK_H

#include <stdint.h>

#define NS_PER_S  INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

/* Nanoseconds since the Unix epoch. */
int64_t clock_wall_ns(void);
/* Nanoseconds since some fixed moment; never goes back. */
int64_t clock_mono_ns(void);

/* Tests only: replace the wall clock; NULL restores it. */
void clock_set_wall(int64_t (*fn)(void));

#endif
