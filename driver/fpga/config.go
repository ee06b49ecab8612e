package fpga

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/pciid"
	"github.com/gocyborg/gocyborg/driver/internal/program"
)

// Config is the configuration of each of the three drivers. Host is upstream's option
// [DEFAULT] host; upstream's drivers have no other.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host; upstream's driver for Intel
	// takes the host name of the machine).
	Host string `json:"host"`
	driver.Policy
	// Products names products in addition to the built-in ones. A function with a listed id of
	// Intel is treated as an FPGA even without a kernel driver of FPGAs.
	Products []Product `json:"products,omitempty"`
	// Programmable false makes every FPGA pre-programmed unless Devices says otherwise:
	// no CUSTOM_PROGRAMMABLE, no programming, and the function it has is reported.
	Programmable *bool `json:"programmable,omitempty"`
	// Devices are settings of single cards.
	Devices []DeviceConfig `json:"devices,omitempty"`
	// Functionality says for function ids whether they are for compute, network or
	// storage, which the hardware does not say. The Rocky scheduling shape has a trait for it.
	Functionality map[string]string `json:"functionality,omitempty"`
	// SeparateFunctions gives each virtual function its own provider. Placement then knows which
	// of two functions in a region is used up. Otherwise it counts the handles of a region
	// together, as upstream and the specifications do, and a bind for a used-up function is
	// refused. With it, a region with several functions is not programmed.
	SeparateFunctions bool `json:"separate_functions,omitempty"`
	// DoubledHandles reports the management function of a Xilinx card as a second handle
	// of its one accelerator, as upstream does: a guest that gets it can reprogram the card.
	// Cyborg makes two requests of a group that requires CUSTOM_FPGA_XILINX, so such a
	// group can be bound with this option only.
	DoubledHandles bool `json:"doubled_handles,omitempty"`
	// BitstreamLoader is the absolute path of a program that writes images to cards, see the
	// package's documentation. Without it only cards of a tree in memory can be programmed, and
	// of those none with a device feature list.
	BitstreamLoader string `json:"bitstream_loader,omitempty"`
	// Logger gets what the loader writes to its standard error; nil discards it.
	Logger *slog.Logger `json:"-"`
}

// Product gives a PCI id the name of the product it belongs to. Several ids may belong to
// one product.
type Product struct {
	// ID is vendor and product id, "8086:09c4".
	ID string `json:"id"`
	// Name is the name of the product in traits: "PAC_ARRIA10".
	Name string `json:"name"`
	// Family is the device family, "ARRIA10"; empty means Name.
	Family string `json:"family,omitempty"`
}

// DeviceConfig has the settings of the card at an address.
type DeviceConfig struct {
	// Address is the address of the physical function; for a Xilinx card, of its first physical function.
	Address string `json:"address"`
	// Programmable is as in Config, for this card.
	Programmable *bool `json:"programmable,omitempty"`
	// Functionality is compute, network or storage, for all functions.
	Functionality string         `json:"functionality,omitempty"`
	Regions       []RegionConfig `json:"regions,omitempty"`
}

// RegionConfig has the settings of one region of a card.
type RegionConfig struct {
	// Region counts the management engines of the card from 0, by their numbers.
	Region int `json:"region"`
	// Programmable and Functionality are as in DeviceConfig, for this region.
	Programmable  *bool  `json:"programmable,omitempty"`
	Functionality string `json:"functionality,omitempty"`
	// PCIFunctions are the addresses of the virtual functions that lead into the region.
	// The kernel does not always show them; see the package's documentation.
	PCIFunctions []string `json:"pci_functions,omitempty"`
}

// settings is a checked Config.
type settings struct {
	Config
	products      map[productID]Product
	devices       map[driver.PCIAddress]deviceSettings
	functionality map[string]string // by normalised function id
}

type deviceSettings struct {
	DeviceConfig
	regions map[int]RegionConfig
	// owner is the region of a PCI function.
	owner map[driver.PCIAddress]int
}

// check validates the configuration and prepares it for look-ups. All faults are joined.
func (c Config) check() (settings, error) {
	s := settings{
		Config: c, products: builtinProducts(), devices: make(map[driver.PCIAddress]deviceSettings),
		functionality: make(map[string]string),
	}
	var faults []error
	if c.Host == "" {
		faults = append(faults, errors.New("no host name"))
	}
	faults = append(faults, c.Policy.Check(), s.addProducts(), s.addFunctionality())
	if c.BitstreamLoader != "" {
		if err := program.Check(c.BitstreamLoader); err != nil {
			faults = append(faults, fmt.Errorf("bitstream_loader: %w", err))
		}
	}
	for i, d := range c.Devices {
		if err := s.addDevice(d); err != nil {
			faults = append(faults, fmt.Errorf("devices entry %d %q: %w", i, d.Address, err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return settings{}, fmt.Errorf("%w: %w", driver.ErrConfig, err)
	}
	return s, nil
}

func (s *settings) addProducts() error {
	named := make(map[productID]bool)
	for i, p := range s.Products {
		id, err := parseProductID(p.ID)
		if err != nil {
			return fmt.Errorf("products entry %d: %w", i, err)
		}
		if named[id] {
			return fmt.Errorf("products entry %d: id %04x:%04x twice", i, id.vendor, id.product)
		}
		named[id] = true
		if p.Family == "" {
			p.Family = p.Name
		}
		for _, part := range []string{p.Name, p.Family} {
			if _, err := driver.CustomName(part); err != nil {
				return fmt.Errorf("products entry %d: %w", i, err)
			}
		}
		s.products[id] = p
	}
	return nil
}

// parseProductID reads "8086:09c4", in either case and with or without 0x.
func parseProductID(text string) (id productID, err error) {
	vendor, product, _ := strings.Cut(text, ":")
	var err1, err2 error
	id.vendor, err1 = pciid.Parse(vendor)
	id.product, err2 = pciid.Parse(product)
	if err1 != nil || err2 != nil {
		return id, fmt.Errorf("id %q is not VENDOR:PRODUCT, four hexadecimal digits each", text)
	}
	return id, nil
}

func (s *settings) addFunctionality() error {
	for _, id := range slices.Sorted(maps.Keys(s.Functionality)) {
		word := s.Functionality[id]
		key, ok := normalID(id)
		if !ok {
			return fmt.Errorf("functionality: %q is not a function id, 32 hexadecimal digits", id)
		}
		if _, twice := s.functionality[key]; twice {
			return fmt.Errorf("functionality: function %s twice", key)
		}
		if err := checkFunctionality(word); err != nil || word == "" {
			return fmt.Errorf("functionality of %s: %q is not compute, network or storage", id, word)
		}
		s.functionality[key] = word
	}
	return nil
}

func checkFunctionality(word string) error {
	if !slices.Contains([]string{"", "compute", "network", "storage"}, word) {
		return fmt.Errorf("functionality %q is not compute, network or storage", word)
	}
	return nil
}

// normalID is an id of a region or a function as sysfs writes it: 32 hexadecimal digits
// in lower case. A uuid with hyphens is accepted.
func normalID(text string) (string, bool) {
	id := strings.ToLower(text)
	if len(id) == 36 && id[8] == '-' && id[13] == '-' && id[18] == '-' && id[23] == '-' {
		id = strings.ReplaceAll(id, "-", "")
	}
	return id, len(id) == 32 && strings.Trim(id, "0123456789abcdef") == ""
}

func (s *settings) addDevice(d DeviceConfig) error {
	address, err := driver.ParsePCIAddress(d.Address)
	if err != nil {
		return err
	}
	if _, twice := s.devices[address]; twice {
		return errors.New("the address appears twice")
	}
	if err := checkFunctionality(d.Functionality); err != nil {
		return err
	}
	set := deviceSettings{DeviceConfig: d, regions: make(map[int]RegionConfig), owner: make(map[driver.PCIAddress]int)}
	for _, r := range d.Regions {
		if err := set.addRegion(r); err != nil {
			return fmt.Errorf("region %d: %w", r.Region, err)
		}
	}
	s.devices[address] = set
	return nil
}

func (d *deviceSettings) addRegion(r RegionConfig) error {
	if _, twice := d.regions[r.Region]; twice || r.Region < 0 {
		return errors.New("it appears twice, or is negative")
	}
	d.regions[r.Region] = r
	for _, text := range r.PCIFunctions {
		address, err := driver.ParsePCIAddress(text)
		if err != nil {
			return err
		}
		if other, taken := d.owner[address]; taken {
			return fmt.Errorf("PCI function %s is in region %d already", address, other)
		}
		d.owner[address] = r.Region
	}
	return checkFunctionality(r.Functionality)
}

// programmable is the nearest answer: of the region, of the card, of all cards; yes.
func (s *settings) programmable(card driver.PCIAddress, region int) bool {
	d := s.devices[card]
	for _, answer := range []*bool{d.regions[region].Programmable, d.Programmable, s.Programmable} {
		if answer != nil {
			return *answer
		}
	}
	return true
}

// functionalities returns the functionalities of a region with these functions, each once.
func (s *settings) functionalities(card driver.PCIAddress, region int, functions []string) []string {
	d := s.devices[card]
	for _, word := range []string{d.regions[region].Functionality, d.Functionality} {
		if word != "" {
			return []string{word}
		}
	}
	var words []string
	for _, id := range functions {
		if word := s.functionality[id]; word != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}

// product is the name of the product of a function, its family, and whether either is
// known.
func (s *settings) product(f driver.PCIFunction) (Product, bool) {
	p, ok := s.products[productID{f.Vendor, f.Product}]
	return p, ok
}

const (
	vendorIntel  = 0x8086
	vendorXilinx = 0x10ee
	vendorInspur = 0x1bd4

	classAccelerator = 0x1200 // processing accelerators
)

// productID are the numbers that a function is known by.
type productID struct{ vendor, product uint16 }

// builtinProducts are the known cards. Upstream knows the first. A virtual function has its own
// id. The last are known only by their id, as in the kernel's dfl-pci: while a guest has such a
// card, on vfio-pci, the kernel shows nothing else.
func builtinProducts() map[productID]Product {
	arria := Product{Name: "PAC_ARRIA10", Family: "ARRIA10"}
	d5005 := Product{Name: "PAC_D5005", Family: "STRATIX10"}
	n3000 := Product{Name: "PAC_N3000", Family: "ARRIA10"}
	return map[productID]Product{
		{vendorIntel, 0x09c4}: arria, {vendorIntel, 0x09c5}: arria,
		{vendorIntel, 0x0b2b}: d5005, {vendorIntel, 0x0b2c}: d5005,
		{vendorIntel, 0x0b30}: n3000,
		{vendorIntel, 0xbcbd}: {}, {vendorIntel, 0xbcbf}: {}, {vendorIntel, 0xbcc0}: {}, {vendorIntel, 0xbcc1}: {},
		{vendorIntel, 0xbcce}: {}, {vendorIntel, 0xbccf}: {},
	}
}

// claims returns the ids of a vendor among the products.
func (s *settings) claims(vendor uint16) []driver.Claim {
	var list []driver.Claim
	for id, p := range s.products {
		if id.vendor == vendor {
			list = append(list, driver.Claim{Vendor: vendor, Product: id.product, Why: strings.TrimSpace("FPGA " + p.Name)})
		}
	}
	slices.SortFunc(list, func(a, b driver.Claim) int { return cmp.Compare(a.Product, b.Product) })
	return list
}
