#include "random.h"

/* xorshift64 */
uint64_t random_u64(void)
{
    static uint64_t s = 0x9e3779b97f4a7c15u;

    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return s;
}

unsigned random_below(unsigned n)
{
    return (unsigned)(random_u64() >> 11) % n;
}
