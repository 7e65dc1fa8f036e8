/* shortest.c -- exact arithmetic on 128 bits.
 *
 * d is m / 2^s. Times 10^k it has 17 digits before the point; numerator m * 10^k, below 2^123, and
 * s below 70 say it exactly. What reads back as d lies within half of 10^k around the numerator.
 * From the 17 digits on the last one is rounded away as long as the result stays within. */
#include "shortest.h"

#include <string.h>

__extension__ typedef unsigned __int128 u128;

enum { MANTISSA_BITS = 52, DIGITS = 17, MAX_K = 21 };

static u128 power_of_10(int k)
{
    u128 p = 1;

    while (k-- > 0)
        p *= 10;
    return p;
}

/* Is c / 2^0 within half a unit of the numerator? half: of the last place of m, in the numerator's
 * measure; the middle itself reads back as the even m. */
static bool is_within(uint64_t c, u128 numerator, int s, u128 half, bool even)
{
    u128 there = (u128)c << s;
    u128 off = there > numerator ? there - numerator : numerator - there;

    return off < half || (even && off == half);
}

bool shortest_digits(double d, uint64_t *digits, int *n, int *exponent)
{
    static const uint64_t low = UINT64_C(10000000000000000), high = UINT64_C(100000000000000000);
    uint64_t bits, m, q, unit = 1, best;
    u128 scale, numerator, rest_of_q, middle;
    int s, k;

    if (!(d >= 1e-5 && d < 1e15))
        return false;
    memcpy(&bits, &d, sizeof(bits));
    m = bits & ((UINT64_C(1) << MANTISSA_BITS) - 1);
    if (m == 0)
        return false; /* the doubles below are twice as close as those above */
    m |= UINT64_C(1) << MANTISSA_BITS;
    s = 1023 + MANTISSA_BITS - (int)(bits >> MANTISSA_BITS & 0x7ff);
    /* 77 / 256 is about log10(2), rounded down for those below 1 too, so k is right or one too
     * much. */
    k = MANTISSA_BITS - s;
    k = DIGITS - 1 - (k >= 0 ? k * 77 / 256 : -((-k * 77 + 255) / 256));
    if (k > MAX_K)
        k = MAX_K;
    if (k < 0 || s < 0)
        return false;
    scale = power_of_10(k);
    numerator = m * scale;
    q = (uint64_t)(numerator >> s);
    while (q >= high && k > 0) {
        scale = power_of_10(--k);
        numerator = m * scale;
        q = (uint64_t)(numerator >> s);
    }
    if (q < low || q >= high)
        return false;
    /* 17 digits, rounded to the nearest, the middle to the even one. */
    rest_of_q = numerator - ((u128)q << s);
    middle = s > 0 ? (u128)1 << (s - 1) : 1;
    best = q + (rest_of_q > middle || (rest_of_q == middle && q % 2 == 1));
    for (uint64_t next = 10; next <= low; next *= 10) {
        uint64_t rest = q % next, c = q - rest;

        /* Up when what goes is more than half; an exact half goes to the even digit, as printf has
         * it. */
        if (rest > next / 2 ||
            (rest == next / 2 && (((u128)q << s) != numerator || (c / next) % 2 == 1)))
            c += next;
        if (!is_within(c, numerator, s, scale / 2, m % 2 == 0))
            break;
        best = c;
        unit = next;
    }
    best /= unit;
    *exponent = -k;
    for (; unit > 1; unit /= 10)
        ++*exponent;
    while (best % 10 == 0) { /* rounding carried */
        best /= 10;
        ++*exponent;
    }
    *digits = best;
    *n = 0;
    for (; best > 0; best /= 10)
        ++*n;
    return true;
}
