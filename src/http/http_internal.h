/* http_internal.h -- what the files of the HTTP server share. libevent's types stay in here.
 *
 * A connection's states, each with the function that leaves it:
 *
 *   FIRST, IDLE  nothing of a request has come                           read_request
 *   READING      a request is arriving, or what is left of a refused     read_request
 *                one is read past
 *   HANDLING     an exchange is open: its body is borrowed, nothing is   connection_replied
 *                received; how long that takes is the writer's business
 *   REPLYING     the socket takes no more of the answer for now          on_writable
 *   RESTING      it was answered that there is no room, and is not      connection_sweep
 *                received from for a moment
 *   LINGERING    our side is shut; what the client still sends is        receive
 *                thrown away until it closes too
 *
 * All but HANDLING end at a deadline; RESTING goes on as IDLE or READING then. It counts from when
 * the state was entered, so that no trickle of bytes moves it (S06, H-38).
 *
 * Events are edge-triggered and stay added as long as the connection lives: an event says that
 * there is something to receive, `readable` remembers it until a receive has found the end. So a
 * request costs a receive, a send and no epoll_ctl. An edge may bring bytes and the end of the
 * stream at once; EV_CLOSED tells them apart, or a short receive would be taken for all there is.
 */
#ifndef OTLITE_HTTP_INTERNAL_H
#define OTLITE_HTTP_INTERNAL_H

#include <event2/event.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "http/buffers.h"
#include "http/chunked.h"
#include "http/head.h"
#include "otlite/http.h"

enum connection_state {
    CONN_FIRST,
    CONN_IDLE,
    CONN_READING,
    CONN_HANDLING,
    CONN_REPLYING,
    CONN_RESTING,
    CONN_LINGERING,
    CONN_STATES
};

enum {
    SWEEP_MS = 100,
    PAUSED_SWEEP_MS = 20,
    LINGER_MS = 1000,
    /* Until the sweep after so long. */
    REST_MS = 50,
    /* A request up to this size comes in however much others are sending. */
    SMALL_REQUEST = 32 * 1024,
    /* A refused body up to this size is read past; behind a longer one the connection ends. */
    SKIP_MAX = 64 * 1024,
    /* Receives for one connection before others have their turn. */
    RECEIVES_A_TURN = 32,
    ACCEPTS_A_TURN = 16,
    SPARE_EXCHANGES = 64
};

TAILQ_HEAD(connection_list, connection);

struct connection {
    TAILQ_ENTRY(connection) by_state; /* in the loop's list of its state, oldest first */
    TAILQ_ENTRY(connection) by_turn;  /* in the loop's list of those that wait for a turn */
    struct http_loop *loop;
    struct event *read_event, *write_event; /* the latter is added while REPLYING */
    int fd;
    enum connection_state state;
    bool readable; /* there may be something to receive */
    bool hung_up;  /* the client has shut its side; receive until the end is seen */
    bool running;  /* connection_run is at work: nobody else frees it */
    bool dead;     /* to be freed */
    bool waits_for_turn;
    bool close_after;        /* of the answer in `pending`: end the connection behind it */
    bool rest_after;         /* of the answer: rest behind it */
    int64_t since_ns;        /* when the state was entered, monotonic */
    struct recv_buffer *in;  /* NULL when nothing is held */
    size_t start, end;       /* of `in`: what was received and is not done with */
    struct http_exchange *x; /* of the request at `start`, once its head is whole */
    struct head_scan scan;   /* its positions count from `start`, like the next four */
    size_t head_n;           /* 0: the head is not whole */
    size_t body_n;           /* body bytes behind the head that are ready */
    size_t raw;              /* of a chunked body: how far it was taken apart */
    size_t request_n;        /* the whole request, set when it is handled */
    struct chunked chunked;
    size_t skip;               /* bytes of a refused body still to come */
    size_t counted;            /* what this connection added to the gauge reading_bytes */
    struct buf pending;        /* what the socket did not take; empty unless REPLYING */
    struct handoff_item adopt; /* on its way from the loop that accepted it */
    char peer[INET6_ADDRSTRLEN];
};

struct http_exchange {
    struct http_exchange *next; /* spare ones of the loop */
    struct connection *conn;    /* outlives the exchange */
    const struct http_route *route;
    unsigned method;   /* HTTP_* bit, 0 for others */
    bool close;        /* answer with Connection: close */
    bool preflight;    /* the CORS headers are set already */
    bool open;         /* counted in the loop's exchanges */
    atomic_bool *gone; /* to be set when the client hangs up; NULL: nobody asks */
    struct buf extra;  /* header lines of the answer */
    struct head head;  /* last: large */
};

struct http_loop {
    struct http_server *server;
    unsigned index;
    pthread_t thread;
    bool started;
    struct event_base *base;
    struct event **listeners; /* n_listeners of them; none once stopping */
    unsigned n_listeners;
    struct event *sweep;
    struct event *turn; /* runs those that wait for a turn, behind the other events */
    struct event *wake; /* handoff's fd */
    struct handoff handoff;
    struct handoff_item stop_accepting, end; /* each pushed at most once */
    struct connection_list connections[CONN_STATES];
    struct connection_list turns;
    struct buffer_pool buffers;
    struct http_exchange *spare; /* n_spare of them */
    unsigned n_spare;
    struct buf reply; /* the answer that is being put together */
    char date[32];    /* of the second date_s, as the Date header has it */
    int64_t date_s;
    bool paused;                     /* listeners are disabled for now */
    int64_t resume_ns;               /* not before this moment */
    unsigned exchanges;              /* open ones */
    _Atomic unsigned open_exchanges; /* the same, for other threads */
    _Atomic unsigned load;           /* connections, those on their way to it included */
};

struct http_server {
    struct http_opts opts; /* strings borrowed */
    unsigned n_loops;
    struct http_loop *loops;
    unsigned n_listen;
    int *listen_fds;
    unsigned *ports;
    _Atomic bool stopping; /* no new connections, answers say close */
};

/* connection.c */
/* Takes fd, also when there is no memory. The connection goes to the loop with the fewest. */
void connection_open(struct http_loop *l, int fd, const struct sockaddr *peer);
/* On its own loop from here on. */
void connection_start(struct connection *c);
void connection_sweep(struct http_loop *l, int64_t now_ns);
void connection_run_turns(struct http_loop *l);
void connection_free_all(struct http_loop *l);
/* Whether the connection can serve another request behind the answer to this one. */
bool connection_can_go_on(const struct connection *c);
/* Behind the answer, do not receive for a moment: it says that there is no room, and a client that
 * tries again at once would take the machine from those whose requests are being stored. */
void connection_rest(struct connection *c);
/* The exchange is over; send its answer. c may be gone afterwards. */
void connection_replied(struct connection *c, struct bytes answer, bool close);

/* exchange.c */
/* An exchange for c's request; NULL without memory. */
struct http_exchange *exchange_new(struct connection *c);
void exchange_free(struct http_exchange *x);
void exchange_free_spare(struct http_loop *l);
/* The head is whole: find the route, ask its admit. False: it is answered, and x is gone. */
bool exchange_admit(struct http_exchange *x);
/* The body is whole. x may be gone afterwards. */
void exchange_handle(struct http_exchange *x);
/* Answer with err's code and end the connection. x is gone afterwards. */
void exchange_refuse(struct http_exchange *x, enum otl_err code, const char *text);

/* accept.c */
enum otl_err listeners_open(struct http_loop *l, struct otl_error *err) OTL_MUSTCHECK;
void listeners_close(struct http_loop *l);
/* Accept again when the reason for the pause has gone. */
void listeners_resume(struct http_loop *l, int64_t now_ns);

/* cors.c */
/* Add the headers of every answer (H-80, H-84). */
void cors_answer(const struct cors_opts *o, struct http_exchange *x);
/* True when the request is a preflight and CORS is on; the answer's headers are then added. */
bool cors_preflight(const struct cors_opts *o, struct http_exchange *x);
bool cors_is_on(const struct cors_opts *o);

#endif
