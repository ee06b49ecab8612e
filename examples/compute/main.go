// Command compute is a compute agent with the three users that Nova has: that of each
// request for Cyborg, the service user whose token goes with it, and its own for
// Placement. It reads nova.conf, reports what its users may not do, and serves
//
//	PUT    /instances/UUID?profile=NAME   start a guest with the accelerators of a device profile
//	DELETE /instances/UUID                destroy it and release them
//
// with the X-Auth-Token of the user.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/examples/libvirt"
	"github.com/gocyborg/gocyborg/requestspec"
)

// agent attaches accelerators for the users of requests.
type agent struct{ flow *spawn.Flow }

// newAgent makes an agent from a nova.conf, and logs what its own users may not do.
func newAgent(ctx context.Context, path string, hypervisor spawn.Hypervisor) (*agent, error) {
	conf, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer conf.Close()
	flow, err := spawn.NewFromNovaConf(ctx, conf, spawn.WithHypervisor(hypervisor))
	if err != nil {
		return nil, err
	}
	refusals, err := flow.Check(ctx)
	if err != nil {
		return nil, err
	}
	for _, refusal := range refusals {
		log.Print("not allowed: ", refusal)
	}
	return &agent{flow}, nil
}

// ServeHTTP implements http.Handler.
func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	routes := http.NewServeMux()
	routes.HandleFunc("PUT /instances/{uuid}", a.asUser(a.attach))
	routes.HandleFunc("DELETE /instances/{uuid}", a.asUser(a.release))
	routes.ServeHTTP(w, r)
}

// asUser calls handle with the flow of the user of a request.
func (a *agent) asUser(handle func(flow *spawn.Flow, r *http.Request) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, err := a.flow.Cyborg().ForToken(r.Context(), r.Header.Get("X-Auth-Token"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		switch text, err := handle(a.flow.As(user), r); {
		case err == nil:
			fmt.Fprintln(w, text)
		case errors.Is(err, cyborgclient.ErrForbidden):
			http.Error(w, err.Error(), http.StatusForbidden)
		case errors.Is(err, spawn.ErrRequest), errors.Is(err, spawn.ErrProfile), errors.Is(err, cyborgclient.ErrInvalid):
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

func (a *agent) attach(flow *spawn.Flow, r *http.Request) (string, error) {
	if r.FormValue("profile") == "" {
		return "", fmt.Errorf("%w: no device profile is named", spawn.ErrRequest)
	}
	result, err := flow.Run(r.Context(), spawn.Request{
		Instance: r.PathValue("uuid"),
		Flavor: requestspec.Flavor{
			Name: "accelerated", VCPUs: 2, MemoryMB: 2048, RootGB: 20,
			ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: r.FormValue("profile")},
		},
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s on %s for project %s", result.Devices, result.Host, result.ARQs[0].ProjectID), nil
}

func (a *agent) release(flow *spawn.Flow, r *http.Request) (string, error) {
	operations, err := flow.Operations()
	if err != nil {
		return "", err
	}
	i, err := operations.Inspect(r.Context(), spawn.Instance{UUID: r.PathValue("uuid")})
	if err != nil {
		return "", err
	}
	return "released", operations.Delete(r.Context(), i)
}

func main() {
	config := flag.String("config", "/etc/nova/nova.conf", "nova.conf of this host")
	listen := flag.String("listen", "127.0.0.1:8775", "address to serve on")
	flag.Parse()
	agent, err := newAgent(context.Background(), *config, libvirt.Host())
	if err != nil {
		log.Fatal(err)
	}
	server := http.Server{Addr: *listen, Handler: agent, ReadHeaderTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}
