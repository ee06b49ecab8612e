// Package keep holds go.mod together while packages are being written. To be deleted.
package keep

import (
	_ "github.com/alecthomas/kong"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/uuid"
	_ "github.com/gophercloud/gophercloud/v2"
	_ "github.com/gophercloud/gophercloud/v2/openstack"
	_ "github.com/gophercloud/gophercloud/v2/openstack/config"
	_ "github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	_ "github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocations"
	_ "github.com/hashicorp/go-retryablehttp"
	_ "github.com/jarcoal/httpmock"
	_ "github.com/jedib0t/go-pretty/v6/table"
	_ "github.com/jedib0t/go-pretty/v6/progress"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "go.etcd.io/bbolt"
	_ "go.yaml.in/yaml/v3"
	_ "gopkg.in/ini.v1"
	_ "libvirt.org/go/libvirtxml"
	_ "pgregory.net/rapid"
)
