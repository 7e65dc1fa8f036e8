/* handoff.h -- finished work on its way back to the thread that asked for it.
 *
 * Any thread pushes, one owner drains. The eventfd becomes readable when the list turns non-empty,
 * so a busy owner is woken once for many items (memcached's hand-back queue, without a pipe). */
#ifndef OTLITE_HANDOFF_H
#define OTLITE_HANDOFF_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "otlite/err.h"

struct handoff_item {
    struct handoff_item *next;
    void (*run)(struct handoff_item *item); /* called on the owner's thread, once */
};

struct handoff {
    pthread_mutex_t mu; /* guards head and tail */
    struct handoff_item *head;
    struct handoff_item *tail;
    int fd; /* eventfd, non-blocking; the owner watches it for reading */
};

enum otl_err handoff_init(struct handoff *h, struct otl_error *err) OTL_MUSTCHECK;
/* Nothing may push any more. Items still in the list are the caller's mistake. */
void handoff_fini(struct handoff *h);
/* Takes item until its run is called. Never fails. */
void handoff_push(struct handoff *h, struct handoff_item *item);
/* The same for items that are linked by next from first to last, whose next is NULL: one lock and at
 * most one wake-up for all. */
void handoff_push_chain(struct handoff *h, struct handoff_item *first, struct handoff_item *last);
/* Owner: clear the eventfd and run everything that is there, in order. Returns how many. */
unsigned handoff_drain(struct handoff *h);

#endif
