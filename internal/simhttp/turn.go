package simhttp

import (
	"context"
	"net/http"
)

type turnKey struct{}

// WithTurn returns a request whose route handler runs between begin, which may wait, and end. The
// delay of a fault rule and the check of the token are outside of this. The error of begin is
// answered instead.
func WithTurn(r *http.Request, begin func(context.Context) (end func(), err error)) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), turnKey{}, begin))
}

// beginTurn calls the begin of a context's request. Requests that services send each other have none: their senders do.
func beginTurn(ctx context.Context) (end func(), err error) {
	begin, ok := ctx.Value(turnKey{}).(func(context.Context) (func(), error))
	if !ok || IsInternal(ctx) {
		return func() {}, nil
	}
	return begin(ctx)
}
