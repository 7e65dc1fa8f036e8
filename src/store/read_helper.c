#include "read_helper.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum helper_state { HELPER_FREE, HELPER_WORKING, HELPER_DONE, HELPER_STOPPING };

struct read_helper {
    pthread_t thread;
    pthread_mutex_t mu; /* guards from here to arg */
    pthread_cond_t changed;
    enum helper_state state; /* FREE -> WORKING (start) -> DONE (thread) -> FREE (wait) */
    void (*fn)(void *arg);
    void *arg;
};

static void *helper_main(void *arg)
{
    struct read_helper *h = arg;

    (void)pthread_mutex_lock(&h->mu);
    for (;;) {
        while (h->state != HELPER_WORKING && h->state != HELPER_STOPPING)
            (void)pthread_cond_wait(&h->changed, &h->mu);
        if (h->state == HELPER_STOPPING)
            break;
        (void)pthread_mutex_unlock(&h->mu);
        h->fn(h->arg);
        (void)pthread_mutex_lock(&h->mu);
        h->state = HELPER_DONE;
        (void)pthread_cond_broadcast(&h->changed);
    }
    (void)pthread_mutex_unlock(&h->mu);
    return NULL;
}

enum otl_err read_helper_new(struct read_helper **out, struct otl_error *err)
{
    struct read_helper *h = calloc(1, sizeof(*h));
    int failed;

    if (h == NULL)
        return otl_fail(err, OTL_ENOMEM, "readers: no memory");
    failed = pthread_mutex_init(&h->mu, NULL);
    if (failed != 0)
        goto free_it;
    failed = pthread_cond_init(&h->changed, NULL);
    if (failed != 0)
        goto free_mutex;
    failed = pthread_create(&h->thread, NULL, helper_main, h);
    if (failed == 0) {
        *out = h;
        return OTL_OK;
    }
    (void)pthread_cond_destroy(&h->changed);
free_mutex:
    (void)pthread_mutex_destroy(&h->mu);
free_it:
    free(h);
    return otl_fail(err, OTL_ESYSTEM, "readers: cannot start a thread: %s", strerror(failed));
}

void read_helper_free(struct read_helper *h)
{
    if (h == NULL)
        return;
    (void)pthread_mutex_lock(&h->mu);
    h->state = HELPER_STOPPING;
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->mu);
    (void)pthread_join(h->thread, NULL);
    (void)pthread_cond_destroy(&h->changed);
    (void)pthread_mutex_destroy(&h->mu);
    free(h);
}

bool read_helper_start(struct read_helper *h, void (*fn)(void *arg), void *arg)
{
    bool is_free;

    (void)pthread_mutex_lock(&h->mu);
    is_free = h->state == HELPER_FREE;
    if (is_free) {
        h->fn = fn;
        h->arg = arg;
        h->state = HELPER_WORKING;
        (void)pthread_cond_broadcast(&h->changed);
    }
    (void)pthread_mutex_unlock(&h->mu);
    return is_free;
}

void read_helper_wait(struct read_helper *h)
{
    (void)pthread_mutex_lock(&h->mu);
    while (h->state != HELPER_DONE)
        (void)pthread_cond_wait(&h->changed, &h->mu);
    h->state = HELPER_FREE;
    (void)pthread_mutex_unlock(&h->mu);
}
