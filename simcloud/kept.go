package simcloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// WithStateFile keeps the cloud in a file: [New] goes on where the cloud of that file
// ended, and [FromState] fills a new file. Whatever a request changed is on the disk before
// the request is answered, so that no end of the process, kill -9 included, loses a change
// that anybody was told of; a change that cannot be written is answered 500. What the cloud
// does by itself, such as a delayed bind, is written soon after, and a bind that was going
// on begins again.
//
// One process has the file at a time. The error of New matches [ErrState] when the file
// holds the state of another model, or is no state file.
func WithStateFile(path string) Option { return func(s *settings) { s.stateFile = path } }

// newKept makes a cloud of a model that a file keeps, or goes on with it.
func newKept(ctx context.Context, m Model, set settings) (*Cloud, error) {
	return withFile(ctx, set, func(parts map[string][]byte) (*Cloud, error) {
		if len(parts) == 0 {
			return newBuilt(ctx, m, set)
		}
		if err := m.Validate(); err != nil {
			return nil, err
		}
		c, err := fromParts(parts, set)
		if err != nil {
			return nil, err
		}
		if where, err := c.isOf(m); err != nil || where != "" {
			return nil, errors.Join(err, fmt.Errorf("%w: the state file is that of another model: %s", ErrState, where), c.Close())
		}
		return c, nil
	})
}

// keepState puts a state into a new file.
func keepState(ctx context.Context, parts map[string][]byte, set settings) (*Cloud, error) {
	return withFile(ctx, set, func(old map[string][]byte) (*Cloud, error) {
		if len(old) > 0 {
			return nil, fmt.Errorf("%w: %s holds a state already", ErrState, set.stateFile)
		}
		return fromParts(parts, set)
	})
}

// withFile opens the file, makes the cloud with what is in it, and keeps it there from
// then on.
func withFile(ctx context.Context, set settings, make func(parts map[string][]byte) (*Cloud, error)) (*Cloud, error) {
	if set.external != nil {
		return nil, fmt.Errorf("%w: it would have an external Placement", ErrNoState)
	}
	f, err := openStateFile(set.stateFile, false)
	if err != nil {
		return nil, err
	}
	parts, err := f.read()
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	c, err := make(maps.Clone(parts))
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	if len(parts) > 0 {
		if err := c.heal(ctx); err != nil {
			return nil, errors.Join(err, c.Close(), f.close())
		}
	}
	s := newSaver(c, f)
	s.saved = parts
	c.saver.Store(s)
	if err := s.sync(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// isOf tells where the cloud's model differs from another one, or nothing.
func (c *Cloud) isOf(m Model) (string, error) {
	own, err := marshalModel(c.model)
	if err != nil {
		return "", err
	}
	other, err := marshalModel(m.withDefaults())
	if err != nil || bytes.Equal(own, other) {
		return "", err
	}
	return firstDifference(own, other), nil
}

// saving puts a saver, once there is one, in front of a handler.
func (c *Cloud) saving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch s := c.saver.Load(); {
		case s == nil || harmless(r.Method):
			next.ServeHTTP(w, r)
		case simhttp.IsInternal(r.Context()):
			s.behind(next, w, r)
		default:
			s.before(next, w, r)
		}
	})
}

// Save writes the state to the file of [WithStateFile] now. It is for what is done in Go
// rather than by a request, such as [Cloud.DefineGuest]; without a file it does nothing.
func (c *Cloud) Save() error {
	s := c.saver.Load()
	if s == nil {
		return nil
	}
	s.touch(allParts)
	return s.sync()
}
