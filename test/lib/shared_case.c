#include "shared_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void unhex(struct buf *b)
{
    size_t n = 0, digits = 0;
    bool comment = false;

    for (size_t i = 0; i < b->n; i++) {
        uint8_t c = b->p[i];

        if (c == '#')
            comment = true;
        else if (c == '\n')
            comment = false;
        else if (!comment && c != ' ' && c != '\r')
            b->p[digits++] = c;
    }
    for (n = 0; n < digits / 2; n++) {
        uint8_t byte;

        if (!hex_decode(bytes_of(b->p + 2 * n, 2), &byte))
            abort();
        b->p[n] = byte;
    }
    b->n = n;
}

bool shared_case(const char *name, struct buf *out)
{
    const char *root = getenv("OTLITE_SHARED");
    size_t len = strlen(name);
    char path[512], chunk[4096];
    size_t n;
    FILE *f;

    buf_reset(out);
    (void)snprintf(path, sizeof(path), "%s/cases/%s", root != NULL ? root : "../shared", name);
    f = fopen(path, "rb");
    if (f == NULL) {
        printf("skipped: %s is not there (set OTLITE_SHARED)\n", path);
        return false;
    }
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        buf_add(out, chunk, n);
    (void)fclose(f);
    if (len > 4 && strcmp(name + len - 4, ".hex") == 0)
        unhex(out);
    return !out->failed;
}

struct guarded guarded_copy(struct bytes s)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t data = (s.n + page - 1) / page * page;
    struct guarded g = {.map_n = data + page};
    uint8_t *p;

    p = mmap(NULL, g.map_n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + data, page, PROT_NONE) != 0)
        abort();
    g.map = p;
    if (s.n > 0)
        memcpy(p + data - s.n, s.p, s.n);
    g.b = bytes_of(p + data - s.n, s.n);
    return g;
}

void guarded_free(struct guarded *g)
{
    (void)munmap(g->map, g->map_n);
    *g = (struct guarded){0};
}
