package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cyborgclient"
)

// ARQ lists and changes accelerator requests as Nova does, with a service token.
type ARQ struct {
	List   arqList   `cmd:"" default:"withargs" help:"List accelerator requests."`
	Show   arqShow   `cmd:"" help:"Show an accelerator request."`
	Create arqCreate `cmd:"" help:"Create the accelerator requests of a device profile."`
	Bind   arqBind   `cmd:"" help:"Bind accelerator requests to a device for an instance, with the service token that openstack accelerator arq bind does not send."`
	Unbind arqUnbind `cmd:"" help:"Unbind accelerator requests, which keeps them."`
	Delete arqDelete `cmd:"" help:"Delete accelerator requests, which frees their devices."`
}

// arqOutput is the format in which accelerator requests are listed.
type arqOutput struct {
	Server
	Output string `short:"o" enum:"text,json" default:"text" help:"Output format: text, a table; json, a list of accelerator requests as Cyborg returns them."`
}

func (c arqOutput) write(p *command.Process, arqs []cyborgclient.ARQ) error {
	header := []any{"ARQ", "State", "Device profile", "Host", "Instance", "Attach handle"}
	return command.WriteTable(p.Stdout, c.Output, "no accelerator requests", arqs, header, func(a cyborgclient.ARQ) []any {
		return []any{a.UUID, string(a.State), a.DeviceProfileName, a.Hostname, a.InstanceUUID, handle(a)}
	})
}

// handle is the type and the address of an attach handle.
func handle(a cyborgclient.ARQ) string {
	info := func(key string) any { return a.AttachHandleInfo[key] }
	switch {
	case a.AttachHandleType == "":
		return ""
	case info("bus") != nil:
		return fmt.Sprintf("%s %v:%v:%v.%v", a.AttachHandleType, info("domain"), info("bus"), info("device"), info("function"))
	}
	return string(a.AttachHandleType)
}

// show lists the accelerator requests with these UUIDs.
func (c arqOutput) show(ctx context.Context, p *command.Process, cyborg *cyborgclient.Client, uuids []string) error {
	var arqs []cyborgclient.ARQ
	for _, uuid := range uuids {
		a, err := cyborg.GetARQ(ctx, uuid)
		if err != nil {
			return err
		}
		arqs = append(arqs, *a)
	}
	return c.write(p, arqs)
}

// asNova calls do with a client that is logged in as Nova. The error is bad input if other arguments would avoid it.
func (s Server) asNova(ctx context.Context, verb string, do func(*cyborgclient.Client) error) error {
	cyborg, _, err := s.cyborg(ctx)
	if err != nil {
		return fmt.Errorf("arq %s: %w", verb, err)
	}
	if err = do(cyborg); errors.Is(err, cyborgclient.ErrInvalid) {
		return command.BadInput(err)
	}
	return err
}

type arqList struct {
	arqOutput
	Instance string `placeholder:"UUID" help:"Only those of this instance."`
}

// Run implements the command.
func (c *arqList) Run(ctx context.Context, p *command.Process) error {
	return c.asNova(ctx, "list", func(cyborg *cyborgclient.Client) error {
		arqs, err := cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: c.Instance})
		if err != nil {
			return err
		}
		return c.write(p, arqs)
	})
}

type arqShow struct {
	arqOutput
	ARQ []string `arg:"" name:"arq" help:"UUIDs of accelerator requests."`
}

// Run implements the command.
func (c *arqShow) Run(ctx context.Context, p *command.Process) error {
	return c.asNova(ctx, "show", func(cyborg *cyborgclient.Client) error {
		return c.show(ctx, p, cyborg, c.ARQ)
	})
}

type arqCreate struct {
	arqOutput
	Profile string `arg:"" help:"Name of the device profile."`
}

// Run implements the command.
func (c *arqCreate) Run(ctx context.Context, p *command.Process) error {
	return c.asNova(ctx, "create", func(cyborg *cyborgclient.Client) error {
		arqs, err := cyborg.CreateARQs(ctx, cyborgclient.CreateARQsOpts{DeviceProfileName: c.Profile})
		if err != nil {
			return err
		}
		return c.write(p, arqs)
	})
}

type arqBind struct {
	arqOutput
	ARQ      []string `arg:"" name:"arq" help:"UUIDs of accelerator requests, all for the same device."`
	Host     string   `required:"" placeholder:"NAME" help:"Host of the device."`
	Provider string   `required:"" placeholder:"UUID" help:"Resource provider of the device, as openstack resource provider list shows it."`
	Instance string   `required:"" placeholder:"UUID" help:"Instance that gets the device."`
}

// Run implements the command.
func (c *arqBind) Run(ctx context.Context, p *command.Process) error {
	return c.asNova(ctx, "bind", func(cyborg *cyborgclient.Client) error {
		var bindings []cyborgclient.Binding
		for _, arq := range c.ARQ {
			bindings = append(bindings, cyborgclient.Binding{ARQ: arq, Host: c.Host, DeviceRP: c.Provider, Instance: c.Instance})
		}
		if err := cyborg.BindARQs(ctx, bindings); err != nil {
			return err
		}
		return c.show(ctx, p, cyborg, c.ARQ)
	})
}

type arqUnbind struct {
	arqOutput
	ARQ []string `arg:"" name:"arq" help:"UUIDs of accelerator requests."`
}

// Run implements the command.
func (c *arqUnbind) Run(ctx context.Context, p *command.Process) error {
	return c.asNova(ctx, "unbind", func(cyborg *cyborgclient.Client) error {
		if err := cyborg.UnbindARQs(ctx, c.ARQ); err != nil {
			return err
		}
		return c.show(ctx, p, cyborg, c.ARQ)
	})
}

type arqDelete struct {
	Server
	ARQ []string `arg:"" name:"arq" help:"UUIDs of accelerator requests."`
}

// Run implements the command.
func (c *arqDelete) Run(ctx context.Context, p *command.Process) error {
	return c.asNova(ctx, "delete", func(cyborg *cyborgclient.Client) error {
		if err := cyborg.DeleteARQs(ctx, c.ARQ); err != nil {
			return err
		}
		for _, arq := range c.ARQ {
			if _, err := fmt.Fprintf(p.Stdout, "ARQ %s is deleted\n", arq); err != nil {
				return err
			}
		}
		return nil
	})
}
