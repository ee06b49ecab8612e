package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"path"
	"time"
)

// layout is an OCI image layout in a tar archive. The time of all files is fixed.
type layout struct {
	tar     *tar.Writer
	time    time.Time
	written map[string]bool // by digest: the architectures have blobs in common
}

// descriptor refers to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// platform is the platform of an image.
type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

func newLayout(to io.Writer, at time.Time) *layout {
	return &layout{tar: tar.NewWriter(to), time: at, written: make(map[string]bool)}
}

// close ends the archive.
func (l *layout) close() error { return l.tar.Close() }

// file writes a file of the archive.
func (l *layout) file(name string, data []byte) error {
	return writeFile(l.tar, tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, ModTime: l.time}, data)
}

// blob writes a blob and returns its descriptor.
func (l *layout) blob(mediaType string, data []byte) (descriptor, error) {
	d := descriptor{MediaType: mediaType, Digest: digest(data), Size: int64(len(data))}
	if l.written[d.Digest] {
		return d, nil
	}
	l.written[d.Digest] = true
	return d, l.file(d.path(), data)
}

// document writes a blob in JSON.
func (l *layout) document(mediaType string, value any) (descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(mediaType, data)
}

// json writes a file in JSON.
func (l *layout) json(name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return l.file(name, data)
}

// path is the file with the blob.
func (d descriptor) path() string { return path.Join("blobs/sha256", d.Digest[len("sha256:"):]) }

// digest names content.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// writeFile writes an entry of an archive.
func writeFile(to *tar.Writer, header tar.Header, data []byte) error {
	header.Size = int64(len(data))
	if err := to.WriteHeader(&header); err != nil {
		return err
	}
	_, err := io.Copy(to, bytes.NewReader(data))
	return err
}
