package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unpacked reads an archive.
func unpacked(t *testing.T, data []byte) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for from := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != 1790000000 || header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s is not the same on every machine: %+v", header.Name, header)
		}
		if _, twice := files[header.Name]; twice {
			t.Errorf("%s is there twice", header.Name)
		}
		files[header.Name] = string(content)
	}
}

// decode reads a file in JSON, without unknown keys.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// made writes an image of two architectures.
func made(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	args := []string{"--to", filepath.Join(dir, "image.tar"), "--name", "cysim:0.1.0", "--commit", "0123abcd", "--time", "1790000000"}
	for _, architecture := range []string{"amd64", "arm64"} {
		of := filepath.Join(dir, architecture)
		err := errors.Join(os.Mkdir(of, 0o700), os.WriteFile(filepath.Join(of, "cysim"), []byte("of "+architecture), 0o600),
			os.WriteFile(filepath.Join(of, "LICENSE"), []byte("free"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, architecture+"="+of)
	}
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(args[1])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheSameFilesMakeTheSameImage(t *testing.T) {
	t.Parallel()
	if first, second := made(t), made(t); !bytes.Equal(first, second) {
		t.Error("two images of the same files differ")
	}
}

func TestTheImageHasTwoArchitectures(t *testing.T) {
	t.Parallel()
	files := unpacked(t, made(t))
	blob := func(d descriptor) string {
		text, found := files[d.path()]
		if !found || digest([]byte(text)) != d.Digest || int64(len(text)) != d.Size {
			t.Fatalf("%+v: found %t, %d bytes", d, found, len(text))
		}
		delete(files, d.path())
		return text
	}
	if got := decode[map[string]string](t, files["oci-layout"]); got["imageLayoutVersion"] != "1.0.0" {
		t.Errorf("oci-layout: %v", got)
	}
	top := decode[manifest](t, files["index.json"])
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["io.containerd.image.name"] != "docker.io/library/cysim:0.1.0" {
		t.Fatalf("index.json: %+v", top)
	}
	forDocker := decode[[]saved](t, files["manifest.json"])
	for i, d := range decode[manifest](t, blob(top.Manifests[0])).Manifests {
		of := []string{"amd64", "arm64"}[i]
		if diff := cmp.Diff(&platform{Architecture: of, OS: "linux"}, d.Platform); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		one := decode[manifest](t, blob(d))
		if diff := cmp.Diff(saved{one.Config.path(), []string{"cysim:0.1.0" + []string{"", "-arm64"}[i]}, []string{one.Layers[0].path()}}, forDocker[i]); diff != "" {
			t.Errorf("%s: manifest.json (-want +got):\n%s", of, diff)
		}
		config := decode[image](t, blob(*one.Config))
		packed, err := gzip.NewReader(strings.NewReader(blob(one.Layers[0])))
		if err != nil {
			t.Fatal(err)
		}
		layer, err := io.ReadAll(packed)
		if err != nil || config.RootFS.DiffIDs[0] != digest(layer) || config.Architecture != of || config.OS != "linux" {
			t.Errorf("%s: %v, %+v", of, err, config)
		}
		if diff := cmp.Diff(map[string]string{"cysim": "of " + of, "LICENSE": "free", "tmp/": ""}, unpacked(t, layer)); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", of, diff)
		}
		if got := config.Config.Labels["org.opencontainers.image.revision"]; got != "0123abcd" {
			t.Errorf("%s: revision %q", of, got)
		}
	}
	rest := slices.Sorted(maps.Keys(files))
	if diff := cmp.Diff([]string{"index.json", "manifest.json", "oci-layout"}, rest); diff != "" {
		t.Errorf("files without a reference (-want +got):\n%s", diff)
	}
}

func TestAnImageNeedsItsArguments(t *testing.T) {
	t.Parallel()
	to := filepath.Join(t.TempDir(), "image.tar")
	for _, tt := range []struct{ args, want string }{
		{"", "--to and --name"},
		{"--to TO --name cysim amd64=.", "NAME:TAG"},
		{"--to TO --name cysim:1", "no architecture"},
		{"--to TO --name cysim:1 amd64", "is not ARCHITECTURE=DIRECTORY"},
		{"--to TO --name cysim:1 amd64=nowhere", "nowhere/LICENSE"},
	} {
		if err := run(strings.Fields(strings.ReplaceAll(tt.args, "TO ", to+" "))); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.args, err, tt.want)
		}
	}
}
