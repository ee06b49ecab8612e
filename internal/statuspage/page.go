package statuspage

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
)

//go:embed page.html.tmpl page.css page.js
var files embed.FS

var page = template.Must(template.ParseFS(files, "page.html.tmpl"))

// Page serves the page.
type Page struct {
	// Read reads the state of the cloud.
	Read func() World
	// Version changes with the state that the page shows; it is called often.
	Version func() string
	// Done, if set, ends the streams before the server stops.
	Done <-chan struct{}

	streams chan struct{}
}

// New returns a page of a cloud.
func New(read func() World, version func() string) *Page {
	return &Page{Read: read, Version: version, streams: make(chan struct{}, maxStreams)}
}

// view is the data of the templates.
type view struct {
	World
	Hosts    []host
	States   []arqState
	Rules    []rule
	Diagrams []diagram
}

// Routes are the handlers of the page, by method and path.
func (p *Page) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /_sim/{$}":      p.serve,
		"GET /_sim/page.css": asset("page.css", "text/css; charset=utf-8"),
		"GET /_sim/page.js":  asset("page.js", "text/javascript; charset=utf-8"),
		"GET /_sim/stream":   p.stream,
	}
}

// protect sets headers that isolate the page in the browser.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
}

// serve renders the page, or only its content for the script.
func (p *Page) serve(w http.ResponseWriter, r *http.Request) {
	name := "page.html.tmpl"
	if r.URL.Query().Get("part") == "content" {
		name = "content"
	}
	var text bytes.Buffer
	if err := Render(&text, name, p.Read()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	protect(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(text.Len()))
	_, _ = w.Write(text.Bytes()) // the client may be gone
}

// Render writes a template: page.html.tmpl, or content, its main part.
func Render(w *bytes.Buffer, name string, world World) error {
	v := view{world, world.hosts(), world.states(), world.rules(), diagrams(world.Requests)}
	if err := page.ExecuteTemplate(w, name, v); err != nil {
		return fmt.Errorf("statuspage: %w", err)
	}
	return nil
}

// asset serves an embedded file.
func asset(name, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		w.Header().Set("Content-Type", kind)
		http.ServeFileFS(w, r, files, name)
	}
}
