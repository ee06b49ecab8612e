package statuspage

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

//go:embed page.html.tmpl page.css page.js favicon.svg
var files embed.FS

var page = template.Must(template.New("").Funcs(template.FuncMap{"explained": explained}).ParseFS(files, "page.html.tmpl"))

// Page serves the page.
type Page struct {
	// Done, if set, ends the streams before the server stops.
	Done <-chan struct{}

	cloud   Cloud
	streams chan struct{}
	packers sync.Pool // of *gzip.Writer
}

// New returns a page of a cloud.
func New(cloud Cloud) *Page {
	return &Page{cloud: cloud, streams: make(chan struct{}, maxStreams)}
}

// Routes are the handlers of the page, by method and path.
func (p *Page) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /_sim/{$}":         p.serve,
		"POST /_sim/{$}":        p.act,
		"GET /_sim/page.css":    asset("page.css", "text/css; charset=utf-8"),
		"GET /_sim/page.js":     asset("page.js", "text/javascript; charset=utf-8"),
		"GET /_sim/favicon.svg": asset("favicon.svg", "image/svg+xml"),
		"GET /_sim/stream":      p.stream,
	}
}

// protect sets headers that isolate the page in the browser.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
}

// serve renders the page, or a section for the script. The script sends the ETag of the
// section that it shows, and gets no body if that is still right.
func (p *Page) serve(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	if !values.Has("part") {
		p.writeAll(w, r, http.StatusOK, nil)
		return
	}
	section, ok := sectionOf(values.Get("part"))
	if !ok {
		http.Error(w, "no such part of the page", http.StatusNotFound)
		return
	}
	content, err := render(section, p.read(section, address(values)))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("ETag", content.ETag)
	if r.Header.Get("If-None-Match") == content.ETag {
		protect(w.Header())
		w.WriteHeader(http.StatusNotModified)
		return
	}
	p.write(w, r, http.StatusOK, []byte(content.Body))
}

// writeAll answers the whole page. Some sections may have other data than what they read.
func (p *Page) writeAll(w http.ResponseWriter, r *http.Request, status int, instead map[Section]any) {
	text, err := p.renderAll(address(r.URL.Query()), instead)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.write(w, r, status, text)
}

func (p *Page) write(w http.ResponseWriter, r *http.Request, status int, text []byte) {
	protect(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if len(text) >= minPacked && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		text = p.compress(text)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may be gone
}

// minPacked is the size from which text is compressed, in bytes.
const minPacked = 2048

// compress leaves a tenth of a long list. A packer has a megabyte of tables, and is used again.
func (p *Page) compress(text []byte) []byte {
	var packed bytes.Buffer
	packer, ok := p.packers.Get().(*gzip.Writer)
	if !ok {
		packer, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	}
	defer p.packers.Put(packer)
	packer.Reset(&packed)
	_, _ = packer.Write(text) // a buffer takes everything
	_ = packer.Close()
	return packed.Bytes()
}

// rendered is the content of a section.
type rendered struct {
	Name, Title, ETag string
	Body              template.HTML
}

// read reads the data of a section for an address.
func (p *Page) read(section Section, a address) any {
	return [sections]func(address) any{
		Now: p.now, Leaks: p.leaks, Hosts: p.hosts, Guests: p.guests, ARQs: p.arqs, Flows: p.flows,
		Explain: p.explain, Faults: p.faults, faultForm: p.faultForm, Unknown: p.unrecognized,
	}[section](a)
}

// render renders a section.
func render(section Section, data any) (rendered, error) {
	var body bytes.Buffer
	if err := page.ExecuteTemplate(&body, section.String(), data); err != nil {
		return rendered{}, fmt.Errorf("statuspage: %w", err)
	}
	hash := sha256.Sum256(body.Bytes())
	return rendered{section.String(), section.title(), fmt.Sprintf(`"%x"`, hash[:8]), template.HTML(body.String())}, nil
}

// renderAll renders the page.
func (p *Page) renderAll(a address, instead map[Section]any) ([]byte, error) {
	whole := struct {
		About
		Sections []rendered
		Words    []word
	}{About: p.cloud.About(), Words: words}
	for section := range sections {
		data, replaced := instead[section]
		if !replaced {
			data = p.read(section, a)
		}
		content, err := render(section, data)
		if err != nil {
			return nil, err
		}
		whole.Sections = append(whole.Sections, content)
	}
	var text bytes.Buffer
	if err := page.ExecuteTemplate(&text, "page.html.tmpl", whole); err != nil {
		return nil, fmt.Errorf("statuspage: %w", err)
	}
	return text.Bytes(), nil
}

// asset serves an embedded file.
func asset(name, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		w.Header().Set("Content-Type", kind)
		http.ServeFileFS(w, r, files, name)
	}
}
