package fault

import "github.com/gocyborg/gocyborg/sim"

// The operations of Cyborg, below /accelerator: requests, then what its conductor and the agents of its
// hosts do on their own, and a part of requests.
const (
	AcceleratorRootGet    sim.OperationName = "accelerator.root.get"              // GET /
	AcceleratorVersionGet sim.OperationName = "accelerator.version.get"           // GET /v2
	DeviceProfileList     sim.OperationName = "accelerator.device_profile.list"   // GET /v2/device_profiles
	DeviceProfileCreate   sim.OperationName = "accelerator.device_profile.create" // POST /v2/device_profiles, POST /v2/device_profiles/{id}
	DeviceProfileDelete   sim.OperationName = "accelerator.device_profile.delete" // DELETE /v2/device_profiles, DELETE /v2/device_profiles/{id}
	DeviceProfileGet      sim.OperationName = "accelerator.device_profile.get"    // GET /v2/device_profiles/{id}
	ARQList               sim.OperationName = "accelerator.arq.list"              // GET /v2/accelerator_requests
	ARQCreate             sim.OperationName = "accelerator.arq.create"            // POST /v2/accelerator_requests
	ARQBind               sim.OperationName = "accelerator.arq.bind"              // PATCH /v2/accelerator_requests, PATCH /v2/accelerator_requests/{id}
	ARQDelete             sim.OperationName = "accelerator.arq.delete"            // DELETE /v2/accelerator_requests, DELETE /v2/accelerator_requests/{id}
	ARQGet                sim.OperationName = "accelerator.arq.get"               // GET /v2/accelerator_requests/{id}
	DeviceList            sim.OperationName = "accelerator.device.list"           // GET /v2/devices
	DeviceGet             sim.OperationName = "accelerator.device.get"            // GET /v2/devices/{id}
	DeployableList        sim.OperationName = "accelerator.deployable.list"       // GET /v2/deployables
	DeployableGet         sim.OperationName = "accelerator.deployable.get"        // GET /v2/deployables/{id}
	DeployableProgram     sim.OperationName = "accelerator.deployable.program"    // PATCH /v2/deployables/{id}/program
	DeviceEnable          sim.OperationName = "accelerator.device.enable"         // POST /v2/devices/{id}/enable
	DeviceDisable         sim.OperationName = "accelerator.device.disable"        // POST /v2/devices/{id}/disable
	AttributeList         sim.OperationName = "accelerator.attribute.list"        // GET /v2/attributes
	AttributeCreate       sim.OperationName = "accelerator.attribute.create"      // POST /v2/attributes
	AttributeDelete       sim.OperationName = "accelerator.attribute.delete"      // DELETE /v2/attributes, DELETE /v2/attributes/{id}
	AttributeGet          sim.OperationName = "accelerator.attribute.get"         // GET /v2/attributes/{id}

	AgentCall       sim.OperationName = "accelerator.agent.call"       // a call of the conductor to the agent of a host
	AgentReport     sim.OperationName = "accelerator.agent.report"     // a report of the agent of a host
	DeployableWrite sim.OperationName = "accelerator.deployable.write" // writing a bitstream to a card
	DeviceFind      sim.OperationName = "accelerator.device.find"      // finding a device in a report
	EventSend       sim.OperationName = "accelerator.event.send"       // a POST of events to Nova
	MdevCreate      sim.OperationName = "accelerator.mdev.create"      // creating a mediated device
	MdevRemove      sim.OperationName = "accelerator.mdev.remove"      // removing a mediated device
	VGPUSet         sim.OperationName = "accelerator.vgpu.set"         // writing the vGPU type of a virtual function
	VGPUClear       sim.OperationName = "accelerator.vgpu.clear"       // clearing it

	ARQWrite sim.OperationName = "accelerator.arq.write" // the write of a PATCH or DELETE of requests, after its checks
)

// The operations of Placement, below /placement: requests, and then a part of them.
const (
	PlacementRootGet         sim.OperationName = "placement.root.get"                   // GET /
	ResourceProviderList     sim.OperationName = "placement.resource_provider.list"     // GET /resource_providers
	ResourceProviderCreate   sim.OperationName = "placement.resource_provider.create"   // POST /resource_providers
	ResourceProviderGet      sim.OperationName = "placement.resource_provider.get"      // GET /resource_providers/{uuid}
	ResourceProviderUpdate   sim.OperationName = "placement.resource_provider.update"   // PUT /resource_providers/{uuid}
	ResourceProviderDelete   sim.OperationName = "placement.resource_provider.delete"   // DELETE /resource_providers/{uuid}
	InventoriesGet           sim.OperationName = "placement.inventories.get"            // GET /resource_providers/{uuid}/inventories
	InventoriesPost          sim.OperationName = "placement.inventories.post"           // POST /resource_providers/{uuid}/inventories
	InventoriesPut           sim.OperationName = "placement.inventories.put"            // PUT /resource_providers/{uuid}/inventories
	InventoriesDelete        sim.OperationName = "placement.inventories.delete"         // DELETE /resource_providers/{uuid}/inventories
	InventoryGet             sim.OperationName = "placement.inventory.get"              // GET /resource_providers/{uuid}/inventories/{class}
	InventoryPut             sim.OperationName = "placement.inventory.put"              // PUT /resource_providers/{uuid}/inventories/{class}
	InventoryDelete          sim.OperationName = "placement.inventory.delete"           // DELETE /resource_providers/{uuid}/inventories/{class}
	RPUsagesGet              sim.OperationName = "placement.rp_usages.get"              // GET /resource_providers/{uuid}/usages
	RPAllocationsGet         sim.OperationName = "placement.rp_allocations.get"         // GET /resource_providers/{uuid}/allocations
	AggregatesGet            sim.OperationName = "placement.aggregates.get"             // GET /resource_providers/{uuid}/aggregates
	AggregatesPut            sim.OperationName = "placement.aggregates.put"             // PUT /resource_providers/{uuid}/aggregates
	RPTraitsGet              sim.OperationName = "placement.rp_traits.get"              // GET /resource_providers/{uuid}/traits
	RPTraitsPut              sim.OperationName = "placement.rp_traits.put"              // PUT /resource_providers/{uuid}/traits
	RPTraitsDelete           sim.OperationName = "placement.rp_traits.delete"           // DELETE /resource_providers/{uuid}/traits
	TraitList                sim.OperationName = "placement.trait.list"                 // GET /traits
	TraitGet                 sim.OperationName = "placement.trait.get"                  // GET /traits/{name}
	TraitPut                 sim.OperationName = "placement.trait.put"                  // PUT /traits/{name}
	TraitDelete              sim.OperationName = "placement.trait.delete"               // DELETE /traits/{name}
	ResourceClassList        sim.OperationName = "placement.resource_class.list"        // GET /resource_classes
	ResourceClassCreate      sim.OperationName = "placement.resource_class.create"      // POST /resource_classes
	ResourceClassGet         sim.OperationName = "placement.resource_class.get"         // GET /resource_classes/{name}
	ResourceClassPut         sim.OperationName = "placement.resource_class.put"         // PUT /resource_classes/{name}
	ResourceClassDelete      sim.OperationName = "placement.resource_class.delete"      // DELETE /resource_classes/{name}
	AllocationsGet           sim.OperationName = "placement.allocations.get"            // GET /allocations/{consumer}
	AllocationsPut           sim.OperationName = "placement.allocations.put"            // PUT /allocations/{consumer}
	AllocationsDelete        sim.OperationName = "placement.allocations.delete"         // DELETE /allocations/{consumer}
	AllocationsPost          sim.OperationName = "placement.allocations.post"           // POST /allocations
	AllocationCandidatesList sim.OperationName = "placement.allocation_candidates.list" // GET /allocation_candidates
	UsagesGet                sim.OperationName = "placement.usages.get"                 // GET /usages
	ReshaperPost             sim.OperationName = "placement.reshaper.post"              // POST /reshaper

	AllocationsWrite sim.OperationName = "placement.allocations.write" // the write of a PUT or POST of allocations, after its checks
)

// The operations of Nova, below /compute: requests, and then the forwarding of an event to its waiter.
const (
	ExternalEventsCreate sim.OperationName = "compute.external_events.create" // POST /v2.1/os-server-external-events
	ComputeVersionsList  sim.OperationName = "compute.versions.list"          // GET /
	ComputeVersionGet    sim.OperationName = "compute.version.get"            // GET /v2.1
	FlavorList           sim.OperationName = "compute.flavor.list"            // GET /v2.1/flavors
	FlavorDetails        sim.OperationName = "compute.flavor.details"         // GET /v2.1/flavors/detail
	FlavorGet            sim.OperationName = "compute.flavor.get"             // GET /v2.1/flavors/{id}
	FlavorExtraSpecs     sim.OperationName = "compute.flavor.extra_specs"     // GET /v2.1/flavors/{id}/os-extra_specs
	FlavorExtraSpecGet   sim.OperationName = "compute.flavor.extra_spec.get"  // GET /v2.1/flavors/{id}/os-extra_specs/{key}

	ExternalEventForward sim.OperationName = "compute.external_event.forward" // forwarding one event
)

// The operations of Keystone, below /identity.
const (
	IdentityVersionsList        sim.OperationName = "identity.versions.list"                 // GET /
	IdentityVersionGet          sim.OperationName = "identity.version.get"                   // GET /v3
	TokenValidate               sim.OperationName = "identity.token.validate"                // GET /v3/auth/tokens
	AuthCatalog                 sim.OperationName = "identity.auth.catalog"                  // GET /v3/auth/catalog
	AuthProjects                sim.OperationName = "identity.auth.projects"                 // GET /v3/auth/projects
	AuthDomains                 sim.OperationName = "identity.auth.domains"                  // GET /v3/auth/domains
	AuthSystem                  sim.OperationName = "identity.auth.system"                   // GET /v3/auth/system
	ProjectList                 sim.OperationName = "identity.project.list"                  // GET /v3/projects
	ProjectGet                  sim.OperationName = "identity.project.get"                   // GET /v3/projects/{id}
	UserList                    sim.OperationName = "identity.user.list"                     // GET /v3/users
	UserGet                     sim.OperationName = "identity.user.get"                      // GET /v3/users/{id}
	UserProjects                sim.OperationName = "identity.user.projects"                 // GET /v3/users/{id}/projects
	UserGroups                  sim.OperationName = "identity.user.groups"                   // GET /v3/users/{id}/groups
	GroupList                   sim.OperationName = "identity.group.list"                    // GET /v3/groups
	GroupGet                    sim.OperationName = "identity.group.get"                     // GET /v3/groups/{id}
	DomainList                  sim.OperationName = "identity.domain.list"                   // GET /v3/domains
	DomainGet                   sim.OperationName = "identity.domain.get"                    // GET /v3/domains/{id}
	RoleList                    sim.OperationName = "identity.role.list"                     // GET /v3/roles
	RoleGet                     sim.OperationName = "identity.role.get"                      // GET /v3/roles/{id}
	RoleAssignmentList          sim.OperationName = "identity.role_assignment.list"          // GET /v3/role_assignments
	IdentityServiceList         sim.OperationName = "identity.service.list"                  // GET /v3/services
	IdentityServiceGet          sim.OperationName = "identity.service.get"                   // GET /v3/services/{id}
	EndpointList                sim.OperationName = "identity.endpoint.list"                 // GET /v3/endpoints
	EndpointGet                 sim.OperationName = "identity.endpoint.get"                  // GET /v3/endpoints/{id}
	RegionList                  sim.OperationName = "identity.region.list"                   // GET /v3/regions
	RegionGet                   sim.OperationName = "identity.region.get"                    // GET /v3/regions/{id}
	RegisteredLimitList         sim.OperationName = "identity.registered_limit.list"         // GET /v3/registered_limits
	RegisteredLimitGet          sim.OperationName = "identity.registered_limit.get"          // GET /v3/registered_limits/{id}
	LimitList                   sim.OperationName = "identity.limit.list"                    // GET /v3/limits
	LimitGet                    sim.OperationName = "identity.limit.get"                     // GET /v3/limits/{id}
	LimitModelGet               sim.OperationName = "identity.limit_model.get"               // GET /v3/limits/model
	CredentialList              sim.OperationName = "identity.credential.list"               // GET /v3/credentials
	CredentialGet               sim.OperationName = "identity.credential.get"                // GET /v3/credentials/{id}
	PolicyList                  sim.OperationName = "identity.policy.list"                   // GET /v3/policies
	PolicyGet                   sim.OperationName = "identity.policy.get"                    // GET /v3/policies/{id}
	GrantList                   sim.OperationName = "identity.grant.list"                    // GET /v3/projects/{id}/users/{user}/roles
	GrantCheck                  sim.OperationName = "identity.grant.check"                   // GET /v3/projects/{id}/users/{user}/roles/{role}
	ApplicationCredentialList   sim.OperationName = "identity.application_credential.list"   // GET /v3/users/{id}/application_credentials
	ApplicationCredentialGet    sim.OperationName = "identity.application_credential.get"    // GET /v3/users/{id}/application_credentials/{credential}
	AccessRuleList              sim.OperationName = "identity.access_rule.list"              // GET /v3/users/{id}/access_rules
	AccessRuleGet               sim.OperationName = "identity.access_rule.get"               // GET /v3/users/{id}/access_rules/{rule}
	TokenCreate                 sim.OperationName = "identity.token.create"                  // POST /v3/auth/tokens
	TokenRevoke                 sim.OperationName = "identity.token.revoke"                  // DELETE /v3/auth/tokens
	ApplicationCredentialCreate sim.OperationName = "identity.application_credential.create" // POST /v3/users/{id}/application_credentials
	ApplicationCredentialDelete sim.OperationName = "identity.application_credential.delete" // DELETE /v3/users/{id}/application_credentials/{credential}
	AccessRuleDelete            sim.OperationName = "identity.access_rule.delete"            // DELETE /v3/users/{id}/access_rules/{rule}
)

// The operations of Glance, below /image.
const (
	ImageVersionsList sim.OperationName = "image.versions.list" // GET /, GET /versions, GET /v2
	ImageList         sim.OperationName = "image.image.list"    // GET /v2/images
	ImageCreate       sim.OperationName = "image.image.create"  // POST /v2/images
	ImageGet          sim.OperationName = "image.image.get"     // GET /v2/images/{id}
	ImageUpdate       sim.OperationName = "image.image.update"  // PATCH /v2/images/{id}
	ImageTagPut       sim.OperationName = "image.tag.put"       // PUT /v2/images/{id}/tags/{tag}
	ImageTagDelete    sim.OperationName = "image.tag.delete"    // DELETE /v2/images/{id}/tags/{tag}
	ImageDelete       sim.OperationName = "image.image.delete"  // DELETE /v2/images/{id}
	ImageFileGet      sim.OperationName = "image.file.get"      // GET /v2/images/{id}/file
	ImageFilePut      sim.OperationName = "image.file.put"      // PUT /v2/images/{id}/file
	ImageSchemaGet    sim.OperationName = "image.schema.get"    // GET /v2/schemas/image
)
