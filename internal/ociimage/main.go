// Ociimage writes the image of a release: cysim for containers, for several architectures, without a container tool.
//
//	go run ./internal/ociimage --to cysim-image.tar --name cysim:0.1.0 --commit HASH --time 1790000000 amd64=DIR arm64=DIR
//
// Each directory has the cysim of its architecture and the file LICENSE. The file is an OCI image layout (image-spec 1.1:
// oci-layout, index.json, blobs/sha256) with one image index of a manifest for each architecture. It also has the
// manifest.json of docker save, which versions of Docker without the image store of containerd read: NAME is the first
// architecture there, and NAME-ARCHITECTURE each other. The same arguments and files give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ociimage:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var r release
	flags := flag.NewFlagSet("ociimage", flag.ContinueOnError)
	to := flags.String("to", "", "write the image to this file")
	flags.StringVar(&r.name, "name", "", "name of the image with its tag, such as cysim:0.1.0")
	flags.StringVar(&r.commit, "commit", "", "commit that the image was built from")
	seconds := flags.Int64("time", 0, "time of the commit, in seconds since 1970")
	err := flags.Parse(args)
	r.time = time.Unix(*seconds, 0).UTC()
	switch _, tag, found := strings.Cut(r.name, ":"); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case *to == "" || !found || tag == "":
		return errors.New("--to and --name NAME:TAG are required")
	case flags.NArg() == 0:
		return errors.New("no architecture: name one, such as amd64=DIR")
	}
	file, err := os.Create(*to)
	if err != nil {
		return err
	}
	layout := newLayout(file, r.time)
	err = r.write(layout, flags.Args())
	return errors.Join(err, layout.close(), file.Close())
}
