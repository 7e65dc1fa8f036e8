#include "http/buffers.h"

#include <stdlib.h>

struct recv_buffer *buffer_take(struct buffer_pool *p, size_t n)
{
    struct recv_buffer *b = NULL;
    size_t cap = BUFFER_SMALL;

    if (n <= BUFFER_SMALL) {
        b = p->small;
        if (b != NULL) {
            p->small = b->next;
            p->n_small--;
        }
    } else {
        /* Powers of two, so that bodies of about one size fit into each other's buffers. */
        while (cap < n && cap < BUFFER_LARGE)
            cap *= 2;
        if (cap < n)
            cap = n;
        p->idle_sweeps = 0;
        for (struct recv_buffer **at = &p->large; *at != NULL; at = &(*at)->next) {
            if ((*at)->cap == cap) {
                b = *at;
                *at = b->next;
                p->large_bytes -= b->cap;
                break;
            }
        }
    }
    if (b == NULL && cap <= SIZE_MAX - sizeof(*b)) {
        b = malloc(sizeof(*b) + cap);
        if (b != NULL)
            b->cap = cap;
    }
    return b;
}

void buffer_give(struct buffer_pool *p, struct recv_buffer *b)
{
    if (b == NULL)
        return;
    if (b->cap == BUFFER_SMALL && p->n_small < POOL_SMALL) {
        b->next = p->small;
        p->small = b;
        p->n_small++;
    } else if (b->cap > BUFFER_SMALL && b->cap <= POOL_LARGE_BYTES - p->large_bytes &&
               b->cap <= BUFFER_LARGE) {
        b->next = p->large;
        p->large = b;
        p->large_bytes += b->cap;
    } else {
        free(b);
    }
}

void buffer_pool_sweep(struct buffer_pool *p)
{
    struct recv_buffer *b = p->large;

    if (b == NULL || ++p->idle_sweeps < POOL_FORGET_SWEEPS)
        return;
    p->large = b->next;
    p->large_bytes -= b->cap;
    free(b);
}

static void free_list(struct recv_buffer *b)
{
    while (b != NULL) {
        struct recv_buffer *next = b->next;

        free(b);
        b = next;
    }
}

void buffer_pool_fini(struct buffer_pool *p)
{
    free_list(p->small);
    free_list(p->large);
    *p = (struct buffer_pool){0};
}
