package cyborgclient

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// ListDeviceProfilesOpts narrows a list of device profiles.
type ListDeviceProfilesOpts struct {
	// Names keeps the profiles of these names; unknown names are left out of
	// the answer without an error. None means all profiles.
	Names []string
}

// ListDeviceProfiles lists device profiles, oldest first (GET
// /device_profiles). An unknown name gives an empty list, not ErrNotFound.
func (c *Client) ListDeviceProfiles(ctx context.Context, opts ListDeviceProfilesOpts) ([]DeviceProfile, error) {
	if err := checkProfileNames(OpListDeviceProfiles, opts.Names); err != nil {
		return nil, err
	}
	var query pairs
	query.add("name", strings.Join(opts.Names, ","))
	var profiles []DeviceProfile
	err := c.do(ctx, request{
		op: OpListDeviceProfiles, ids: opts.Names, method: http.MethodGet, url: c.queryURL(pathDeviceProfiles, query),
		decode: func(body []byte) error { return member(body, "device_profiles", &profiles) },
	})
	if err != nil {
		return nil, err
	}
	return profiles, nil
}

// GetDeviceProfile returns the device profile of that UUID. ErrNotFound when
// there is none.
func (c *Client) GetDeviceProfile(ctx context.Context, uuid string) (*DeviceProfile, error) {
	if err := checkUUID("device profile", uuid); err != nil {
		return nil, invalid(OpGetDeviceProfile, []string{uuid}, "%w", err)
	}
	return c.getDeviceProfile(ctx, uuid, minorBase)
}

// GetDeviceProfileByName returns the device profile of that name. From 2.2:
// on older servers it fails with ErrMicroversion, where ListDeviceProfiles
// with one name does the same at 2.0. A name that looks like a UUID is taken
// for one by the server and never found. ErrNotFound when there is none.
func (c *Client) GetDeviceProfileByName(ctx context.Context, name string) (*DeviceProfile, error) {
	if err := checkProfileName(name); err != nil {
		return nil, invalid(OpGetDeviceProfile, []string{name}, "%w", err)
	}
	return c.getDeviceProfile(ctx, name, minorProfileByName)
}

func (c *Client) getDeviceProfile(ctx context.Context, id string, minor int) (*DeviceProfile, error) {
	var profile DeviceProfile
	err := c.do(ctx, request{
		op: OpGetDeviceProfile, ids: []string{id}, method: http.MethodGet,
		url: c.resourceURL(pathDeviceProfiles, id), need: minor, like: minor,
		decode: func(body []byte) error { return member(body, "device_profile", &profile) },
	})
	if err != nil {
		return nil, err
	}
	return &profile, nil
}

// CreateDeviceProfileOpts describes a new device profile.
type CreateDeviceProfileOpts struct {
	Name        string              `json:"name"` // letters, digits, - and _, at most 255
	Description string              `json:"description,omitempty"`
	Groups      []map[string]string `json:"groups"`         // keys "resources:CLASS", "trait:NAME", "accel:..."
	UUID        string              `json:"uuid,omitempty"` // made by the server when empty
}

// CreateDeviceProfile makes a device profile (POST /device_profiles; by
// default only an admin may). A bad name or UUID and missing groups are
// refused here with ErrInvalid: the server answers them 500, or stores the row
// and fails every list from then on. What the groups say is the server's to
// judge (ErrInvalid). ErrConflict when the name or UUID exists; ErrReplyLost
// when the profile may have been made.
func (c *Client) CreateDeviceProfile(ctx context.Context, opts CreateDeviceProfileOpts) (*DeviceProfile, error) {
	ids := []string{opts.Name}
	if err := checkNewProfile(opts); err != nil {
		return nil, invalid(OpCreateDeviceProfile, ids, "%w", err)
	}
	var profile DeviceProfile
	err := c.do(ctx, request{
		op: OpCreateDeviceProfile, ids: ids, method: http.MethodPost, url: c.resourceURL(pathDeviceProfiles),
		body:   []CreateDeviceProfileOpts{opts}, // a list of exactly one
		decode: func(body []byte) error { return bare(body, &profile, &profile.UUID) },
	})
	if err != nil {
		return nil, err
	}
	return &profile, nil
}

func checkNewProfile(opts CreateDeviceProfileOpts) error {
	if err := checkProfileName(opts.Name); err != nil {
		return err
	}
	if len(opts.Groups) == 0 {
		return errors.New("no groups")
	}
	if opts.UUID != "" {
		return checkUUID("device profile", opts.UUID)
	}
	return nil
}

// DeleteDeviceProfile deletes one device profile by UUID or by name. ErrNotFound
// when there is none, ErrConflict while ARQs use it.
func (c *Client) DeleteDeviceProfile(ctx context.Context, uuidOrName string) error {
	if err := checkProfileName(uuidOrName); err != nil { // UUIDs have the form of a name
		return invalid(OpDeleteDeviceProfile, []string{uuidOrName}, "%w", err)
	}
	return c.do(ctx, request{
		op: OpDeleteDeviceProfile, ids: []string{uuidOrName}, method: http.MethodDelete,
		url: c.resourceURL(pathDeviceProfiles, uuidOrName), gone: true,
	})
}

// DeleteDeviceProfiles deletes the device profiles of these names with one
// request. The server deletes them in order and stops at the first that it
// cannot delete (ErrNotFound, ErrConflict); those before it stay deleted. When
// the reply to a first attempt was lost and a repetition finds one missing, the
// rest are deleted one by one. No names, no call.
func (c *Client) DeleteDeviceProfiles(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := checkProfileNames(OpDeleteDeviceProfile, names); err != nil {
		return err
	}
	err := c.do(ctx, request{
		op: OpDeleteDeviceProfile, ids: names, method: http.MethodDelete,
		url: c.queryURL(pathDeviceProfiles, pairs{{"value", strings.Join(names, ",")}}), gone: len(names) == 1,
	})
	var answer *APIError
	if !errors.As(err, &answer) || !answer.repeated || answer.Status != http.StatusNotFound {
		return err
	}
	for _, name := range names {
		if err := c.DeleteDeviceProfile(ctx, name); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

func checkProfileNames(op string, names []string) error {
	for _, name := range names {
		if err := checkProfileName(name); err != nil {
			return invalid(op, names, "%w", err)
		}
	}
	return nil
}

// bare decodes an answer that is one object without a wrapper; id points at
// the member that every such object has.
func bare(body []byte, object any, id *string) error {
	if err := json.Unmarshal(body, object); err != nil {
		return err
	}
	if *id == "" {
		return errors.New("the answer has no uuid")
	}
	return nil
}
