/* fuzz_promql.c -- libFuzzer target: whatever text comes, the parser gives a tree or says why not,
 * with a place; a tree printed is the same tree when it is parsed again; and nothing is read
 * outside of the text (`make fuzz`). */
#include <stdlib.h>
#include <string.h>

#include "query/promql.h"

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* In memory of its own, so that a read behind the end is seen. */
static struct bytes copy_of(const uint8_t *p, size_t n)
{
    uint8_t *copy = malloc(n > 0 ? n : 1);

    require(copy != NULL);
    memcpy(copy, p, n);
    return bytes_of(copy, n);
}

static void print_and_parse_again(const struct expr *e)
{
    struct buf once = {0}, twice = {0}, pretty = {0}, json = {0};
    struct otl_error err;
    struct arena arena;
    struct expr *again = NULL;

    promql_print(&once, e);
    promql_format(&pretty, e);
    promql_json(&json, e);
    require(!once.failed && !pretty.failed && !json.failed);
    arena_init(&arena, 64 << 20);
    require(promql_parse(&arena, buf_bytes(&once), &again, &err) == OTL_OK);
    require(again->type == e->type);
    promql_print(&twice, again);
    require(bytes_equal(buf_bytes(&once), buf_bytes(&twice)));
    require(promql_parse(&arena, buf_bytes(&pretty), &again, &err) == OTL_OK);
    buf_reset(&twice);
    promql_print(&twice, again);
    require(bytes_equal(buf_bytes(&once), buf_bytes(&twice)));
    arena_fini(&arena);
    buf_fini(&once);
    buf_fini(&twice);
    buf_fini(&pretty);
    buf_fini(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = copy_of(data, size);
    const struct label_matcher *m;
    struct otl_error err = {0};
    struct arena arena;
    struct expr *e = NULL;
    int64_t ms;
    size_t n;

    arena_init(&arena, 64 << 20);
    if (promql_parse(&arena, text, &e, &err) == OTL_OK)
        print_and_parse_again(e);
    else
        require(strstr(err.msg, "parse error: ") != NULL || err.code != OTL_EBADREQUEST);
    if (promql_parse_selector(&arena, text, &m, &n, &err) == OTL_OK)
        require(n > 0);
    (void)promql_duration(text, &ms);
    arena_fini(&arena);
    free((void *)(uintptr_t)text.p);
    return 0;
}
