package simhttp

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/gocyborg/gocyborg/internal/tables"
)

// scope is the part of an exchange in the context of its request. A [Transport] or [Recording]
// makes one for each request. Inner handlers fill it in instead of making new contexts, until a
// Service takes the request.
type scope struct {
	internal bool
	recorder *Recorder
	taken    bool
	log      *tables.ChangeLog
	secrets  secrets // of the request, if it has a log
}

type scopeKey struct{}

// scopeOf is the scope of a context, or the zero scope.
func scopeOf(ctx context.Context) scope {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return *s
	}
	return scope{}
}

// newScope returns a context for another exchange, which records nothing yet.
func newScope(ctx context.Context) (context.Context, *scope) {
	outer := scopeOf(ctx)
	s := &scope{internal: outer.internal, recorder: outer.recorder}
	return context.WithValue(ctx, scopeKey{}, s), s
}

// withScope returns the request with a scope that no Service has taken.
func withScope(r *http.Request) (*http.Request, *scope) {
	if s, ok := r.Context().Value(scopeKey{}).(*scope); ok && !s.taken {
		return r, s
	}
	ctx, s := newScope(r.Context())
	return r.WithContext(ctx), s
}

// IsInternal reports whether a request came through [Transport.Internal].
func IsInternal(ctx context.Context) bool { return scopeOf(ctx).internal }

// ChangeLogOf returns the log of the exchange that is being served under ctx, or nil if
// nothing records it.
func ChangeLogOf(ctx context.Context) *tables.ChangeLog { return scopeOf(ctx).log }

// WithoutChangeLog is ctx for work that belongs to no exchange, or to one of another
// service.
func WithoutChangeLog(ctx context.Context) context.Context {
	if ChangeLogOf(ctx) == nil {
		return ctx
	}
	ctx, s := newScope(ctx)
	s.taken = true
	return ctx
}

// Recording lets the recorder keep the exchanges of every Service below the handler.
func Recording(h http.Handler, r *Recorder) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.paused.Load() && !r.RefusesUnrecognized {
			h.ServeHTTP(w, req)
			return
		}
		if recorded, ok := req.Context().Value(watchKey{}).(*atomic.Bool); ok {
			recorded.Store(true)
		}
		req, s := withScope(req)
		s.recorder = r
		h.ServeHTTP(w, req)
	})
}

type watchKey struct{}

// WatchRecording returns a context and a flag that is set when an exchange of the context was
// recorded. The record orders exchanges by their start. Only exchanges of a Transport are seen.
func WatchRecording(ctx context.Context) (context.Context, *atomic.Bool) {
	recorded := new(atomic.Bool)
	return context.WithValue(ctx, watchKey{}, recorded), recorded
}
