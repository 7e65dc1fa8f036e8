#include "otlite/handoff.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum otl_err handoff_init(struct handoff *h, struct otl_error *err)
{
    *h = (struct handoff){.fd = -1};
    if (pthread_mutex_init(&h->mu, NULL) != 0)
        return otl_fail(err, OTL_ESYSTEM, "handoff: cannot make a mutex");
    h->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (h->fd < 0) {
        int e = errno;

        (void)pthread_mutex_destroy(&h->mu);
        return otl_fail(err, OTL_ESYSTEM, "handoff: eventfd: %s", strerror(e));
    }
    return OTL_OK;
}

void handoff_fini(struct handoff *h)
{
    if (h->fd < 0)
        return;
    (void)close(h->fd);
    h->fd = -1;
    (void)pthread_mutex_destroy(&h->mu);
}

void handoff_push(struct handoff *h, struct handoff_item *item)
{
    item->next = NULL;
    handoff_push_chain(h, item, item);
}

void handoff_push_chain(struct handoff *h, struct handoff_item *first, struct handoff_item *last)
{
    const uint64_t one = 1;
    bool was_empty;

    (void)pthread_mutex_lock(&h->mu);
    was_empty = h->head == NULL;
    if (was_empty)
        h->head = first;
    else
        h->tail->next = first;
    h->tail = last;
    (void)pthread_mutex_unlock(&h->mu);
    /* An eventfd write of 1 fails only when the counter is at its top, and then it is readable. */
    if (was_empty)
        (void)!write(h->fd, &one, sizeof(one));
}

unsigned handoff_drain(struct handoff *h)
{
    struct handoff_item *item;
    uint64_t count;
    unsigned n = 0;

    /* Clear first: an item pushed after the list was taken sets it again. */
    (void)!read(h->fd, &count, sizeof(count));
    (void)pthread_mutex_lock(&h->mu);
    item = h->head;
    h->head = h->tail = NULL;
    (void)pthread_mutex_unlock(&h->mu);
    while (item != NULL) {
        struct handoff_item *next = item->next;

        item->run(item);
        item = next;
        n++;
    }
    return n;
}
