/* random.h -- numbers that look random and are the same in each run, so that a failure repeats. */
#ifndef OTLITE_TEST_RANDOM_H
#define OTLITE_TEST_RANDOM_H

#include <stdint.h>

uint64_t random_u64(void);
/* From 0 to n - 1. */
unsigned random_below(unsigned n);

#endif
