/* shortest.h -- the fewest decimal digits that read back as the same double, without printf. */
#ifndef OTLITE_QUERY_SHORTEST_H
#define OTLITE_QUERY_SHORTEST_H

#include <stdbool.h>
#include <stdint.h>

/* d > 0 is digits * 10^exponent, in n digits of which the last is not 0. False: it is not among
 * those that this can tell (1e-5 <= d < 1e15 and no power of two); ask printf. */
bool shortest_digits(double d, uint64_t *digits, int *n, int *exponent);

#endif
