package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// printBanner says where a server is, and what is switched on, for people.
func printBanner(w io.Writer, name, base string, line *kong.Context, more ...string) {
	text := fmt.Sprintf("%s listens on %s\n", name, base)
	for _, fact := range more {
		text += "  " + fact + "\n"
	}
	if on := switchedOn(line); len(on) > 0 {
		text += "  switched on  " + strings.Join(on, " ") + "\n"
	}
	_, _ = io.WriteString(w, text) // the log goes there, too
}

// switchedOn lists the flags that differ from their defaults, including flags set by a model.
func switchedOn(line *kong.Context) []string {
	var list []string
	for _, flag := range line.Selected().Flags {
		value := flag.Target
		for value.Kind() == reflect.Pointer && !value.IsNil() {
			value = value.Elem()
		}
		text := fmt.Sprint(value.Interface())
		switch {
		case value.IsZero(), flag.HasDefault && text == flag.Default, slices.Contains([]string{"listen", "clouds-yaml", "log"}, flag.Name):
		case flag.IsBool():
			list = append(list, "--"+flag.Name)
		case strings.HasSuffix(flag.Name, "-token"):
			list = append(list, "--"+flag.Name+"=...")
		default:
			list = append(list, "--"+flag.Name+"="+command.Quote(text))
		}
	}
	return list
}

// logged logs each request when it was answered, without its secrets.
func logged(handler http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		answer := &countedAnswer{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			path, query := simhttp.RedactedURL(r)
			log.Info("request", "method", r.Method, "path", path, "query", query, "status", answer.status,
				"bytes", answer.bytes, "took", time.Since(began).Round(time.Microsecond), "from", r.RemoteAddr)
		}()
		handler.ServeHTTP(answer, r)
	})
}

// countedAnswer notes the status and the length of an answer.
type countedAnswer struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap is for http.ResponseController.
func (a *countedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *countedAnswer) WriteHeader(status int) {
	if status >= http.StatusOK { // else it is not the last one
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *countedAnswer) Write(p []byte) (int, error) {
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}
