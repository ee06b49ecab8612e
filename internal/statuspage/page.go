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
	// Look reads the state of the cloud.
	Look func() World
	// Version differs when something has changed; it is asked for often.
	Version func() string
	// Done, if set, ends the streams when the server is about to stop.
	Done <-chan struct{}

	streams chan struct{}
}

// New returns a page of a cloud.
func New(look func() World, version func() string) *Page {
	return &Page{Look: look, Version: version, streams: make(chan struct{}, maxStreams)}
}

// view is what the templates get.
type view struct {
	World    World
	Diagrams []listed
}

// listed is a diagram with the same in words.
type listed struct {
	Diagram
	Steps []step
}

// step is an arrow in words.
type step struct {
	Text    string
	Changes []string
}

// Routes are the page's, by method and path.
func (p *Page) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /_sim/{$}":      p.serve,
		"GET /_sim/page.css": asset("page.css", "text/css; charset=utf-8"),
		"GET /_sim/page.js":  asset("page.js", "text/javascript; charset=utf-8"),
		"GET /_sim/stream":   p.stream,
	}
}

// protect sets headers by which a browser keeps the page to itself.
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
	if err := Render(&text, name, p.Look()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	protect(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(text.Len()))
	_, _ = w.Write(text.Bytes()) // the reader may be gone
}

// Render writes the template of a name: page.html.tmpl, or content, its main part.
func Render(w *bytes.Buffer, name string, world World) error {
	v := view{World: world}
	for _, d := range diagrams(world.Exchanges) {
		l := listed{Diagram: d}
		for _, a := range d.Arrows {
			l.Steps = append(l.Steps, step{fmt.Sprintf("%s to %s: %s: %s", d.who(a.FromX), d.who(a.ToX), a.Label, a.Answer), a.Changes})
		}
		v.Diagrams = append(v.Diagrams, l)
	}
	if err := page.ExecuteTemplate(w, name, v); err != nil {
		return fmt.Errorf("statuspage: %w", err)
	}
	return nil
}

// who is the participant whose line is at x.
func (d Diagram) who(x int) string {
	for _, l := range d.Lines {
		if l.X == x {
			return l.Name
		}
	}
	return ""
}

// asset serves an embedded file.
func asset(name, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		data, err := files.ReadFile(name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		protect(w.Header())
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data)
	}
}
