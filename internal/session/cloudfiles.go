package session

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
)

// cloudFromFiles reads a cloud of clouds.yaml, to which secure.yaml and, for its profile,
// clouds-public.yaml add. A file that no variable names is searched for in the search path.
// gophercloud gets the texts, because its search path differs between versions.
func cloudFromFiles(name string) (Cloud, error) {
	dirs := searchPath()
	var names []string
	opts := []clouds.ParseOption{clouds.WithCloudName(name)}
	for _, file := range []struct {
		name, variable string
		option         func(text []byte) clouds.ParseOption
	}{
		{"clouds.yaml", "OS_CLIENT_CONFIG_FILE", func(text []byte) clouds.ParseOption { return clouds.WithCloudsYAML(bytes.NewReader(text)) }},
		{"secure.yaml", "OS_CLIENT_SECURE_FILE", func(text []byte) clouds.ParseOption { return clouds.WithSecureYAML(bytes.NewReader(text)) }},
		{"clouds-public.yaml", "", func(text []byte) clouds.ParseOption { return clouds.WithCloudsPublicYAML(bytes.NewReader(text)) }},
	} {
		path, text, err := find(file.name, file.variable, dirs)
		switch {
		case err != nil:
			return Cloud{}, fmt.Errorf("read cloud %q: %w", name, err)
		case path != "":
			names, opts = append(names, path), append(opts, file.option(text))
		case len(names) == 0:
			return Cloud{}, fmt.Errorf("read cloud %q: there is no clouds.yaml in %s", name, strings.Join(dirs, ", "))
		}
	}
	cloud, err := parse(opts...)
	if err != nil {
		return Cloud{}, fmt.Errorf("read cloud %q from %s: %w", name, strings.Join(names, " and "), err)
	}
	return cloud, nil
}

// searchPath returns the directories of the files, the first one first: openstacksdk's on Linux
// (openstack/config/loader.py), after the directory of the file that OS_CLIENT_CONFIG_FILE names.
func searchPath() []string {
	var dirs []string
	if file := os.Getenv("OS_CLIENT_CONFIG_FILE"); file != "" {
		dirs = append(dirs, filepath.Dir(file))
	}
	if dir, err := os.Getwd(); err == nil {
		dirs = append(dirs, dir)
	}
	home, err := os.UserHomeDir()
	if config := os.Getenv("XDG_CONFIG_HOME"); config != "" || err == nil {
		dirs = append(dirs, filepath.Join(cmp.Or(config, filepath.Join(home, ".config")), "openstack"))
	}
	return append(dirs, "/etc/openstack")
}

// find reads the file that a variable names, or the first one in the directories that can be read. The path is "" if no file was found.
func find(name, variable string, dirs []string) (path string, text []byte, err error) {
	if path := os.Getenv(variable); variable != "" && path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", variable, err)
		}
		return path, text, nil
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if text, err := os.ReadFile(path); err == nil {
			return path, text, nil
		}
	}
	return "", nil, nil
}
