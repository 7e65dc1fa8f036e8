#include "json_fixture.h"

struct jfx jfx;

int jfx_setup(void **state)
{
    (void)state;
    jfx.limits = (struct decode_limits){.max_value_depth = 64};
    arena_init(&jfx.arena, 64 << 20);
    return 0;
}

int jfx_teardown(void **state)
{
    (void)state;
    arena_fini(&jfx.arena);
    return 0;
}

enum otl_err jfx_decode(struct bytes body, otlp_request **out)
{
    *out = NULL;
    memset(&jfx.err, 0, sizeof(jfx.err));
    return decode_json(body, &jfx.limits, &jfx.arena, out, &jfx.notes, &jfx.err);
}

uint64_t jfx_warnings(void)
{
    uint64_t n = 0;

    for (int w = 0; w < WARN_COUNT_OF_WARNINGS; w++)
        n += jfx.notes.warnings[w];
    return n;
}
