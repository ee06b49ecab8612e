package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// release describes an image, in addition to its programs.
type release struct {
	name, commit string
	time         time.Time
}

// image is the configuration from which a container is started. The health check is Docker's
// addition to the configuration of OCI.
type image struct {
	Created time.Time `json:"created"`
	platform
	Config containerConfig `json:"config"`
	RootFS rootFS          `json:"rootfs"`
}

type containerConfig struct {
	ExposedPorts map[string]struct{}
	Env          []string
	Entrypoint   []string
	Healthcheck  healthcheck
	Labels       map[string]string
}

type healthcheck struct {
	Test              []string
	Interval, Timeout time.Duration
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// manifest is the image of one architecture, or with Manifests the index of all of them.
type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        *descriptor       `json:"config,omitempty"`
	Layers        []descriptor      `json:"layers,omitempty"`
	Manifests     []descriptor      `json:"manifests,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// saved is an image in the manifest.json of docker save.
type saved struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// write writes the images, each given as ARCHITECTURE=DIRECTORY, and what refers to them.
func (r release) write(l *layout, images []string) error {
	index := manifest{SchemaVersion: 2, MediaType: indexType, Annotations: r.annotations()}
	var forDocker []saved
	for i, text := range images {
		architecture, dir, found := strings.Cut(text, "=")
		if !found || architecture == "" {
			return fmt.Errorf("%q is not ARCHITECTURE=DIRECTORY", text)
		}
		written, err := r.image(l, platform{Architecture: architecture, OS: "linux"}, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", architecture, err)
		}
		name := r.name
		if i > 0 {
			name += "-" + architecture
		}
		one, err := l.document(manifestType, written)
		if err != nil {
			return err
		}
		one.Platform = &platform{Architecture: architecture, OS: "linux"}
		index.Manifests = append(index.Manifests, one)
		forDocker = append(forDocker, saved{Config: written.Config.path(), RepoTags: []string{name}, Layers: []string{written.Layers[0].path()}})
	}
	all, err := l.document(indexType, index)
	if err != nil {
		return err
	}
	_, tag, _ := strings.Cut(r.name, ":")
	all.Annotations = map[string]string{"io.containerd.image.name": "docker.io/library/" + r.name, "org.opencontainers.image.ref.name": tag}
	return errors.Join(
		l.json("index.json", manifest{SchemaVersion: 2, MediaType: indexType, Manifests: []descriptor{all}}),
		l.json("manifest.json", forDocker),
		l.json("oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}),
	)
}

// image writes the layer and the configuration of one architecture and returns its manifest.
//
// A container serves a cloud on port 8780 of all its addresses. Variables, with which cysim ready and cysim check find that
// cloud too, and not flags choose that: a user of the image may override variables by others.
func (r release) image(l *layout, p platform, dir string) (manifest, error) {
	layer, err := r.layer(dir)
	if err != nil {
		return manifest{}, err
	}
	var packed bytes.Buffer
	compressor, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = compressor.Write(layer)
	}
	if err == nil {
		err = compressor.Close()
	}
	if err != nil {
		return manifest{}, err
	}
	content, err := l.blob(layerType, packed.Bytes())
	if err != nil {
		return manifest{}, err
	}
	config, err := l.document(configType, image{
		Created: r.time, platform: p, RootFS: rootFS{Type: "layers", DiffIDs: []string{digest(layer)}},
		Config: containerConfig{
			ExposedPorts: map[string]struct{}{"8780/tcp": {}},
			Env:          []string{"PATH=/", "CYSIM_LISTEN=0.0.0.0:8780", "CYSIM_URL=http://127.0.0.1:8780"},
			Entrypoint:   []string{"/cysim", "serve"},
			Healthcheck:  healthcheck{Test: []string{"CMD", "/cysim", "ready"}, Interval: 5 * time.Second, Timeout: 3 * time.Second},
			Labels:       r.annotations(),
		},
	})
	return manifest{SchemaVersion: 2, MediaType: manifestType, Config: &config, Layers: []descriptor{content}, Annotations: r.annotations()}, err
}

// layer is the file system of a container: the program, its licence and a directory for temporary files.
func (r release) layer(dir string) ([]byte, error) {
	var archive bytes.Buffer
	to := tar.NewWriter(&archive)
	for _, file := range []struct {
		name string
		mode int64
	}{{"LICENSE", 0o644}, {"cysim", 0o755}} {
		data, err := os.ReadFile(filepath.Join(dir, file.name))
		if err == nil {
			err = writeFile(to, tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: file.mode, ModTime: r.time}, data)
		}
		if err != nil {
			return nil, err
		}
	}
	err := writeFile(to, tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777, ModTime: r.time}, nil)
	return archive.Bytes(), errors.Join(err, to.Close())
}

// annotations describe an image with the keys of the image specification.
func (r release) annotations() map[string]string {
	_, tag, _ := strings.Cut(r.name, ":")
	return map[string]string{
		"org.opencontainers.image.title":       "cysim",
		"org.opencontainers.image.description": "Simulated OpenStack clouds with accelerators, for tests and trials",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     tag,
		"org.opencontainers.image.revision":    r.commit,
		"org.opencontainers.image.created":     r.time.Format(time.RFC3339),
	}
}
