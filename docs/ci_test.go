package docs_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"go.yaml.in/yaml/v3"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// recipe is a section of install.md: what its YAML gives to the container and to the job.
type recipe struct {
	container map[string]string // the environment
	job       map[string]string // the environment
	host      string            // by which the job finds the container
	scripts   []string          // of the job, the leak check last
}

// recipeIn returns the YAML of a section of install.md, each of its documents in T without unknown keys.
func recipeIn[T any](t *testing.T, section string) []T {
	t.Helper()
	var list []T
	for _, b := range blocksOf(t, "install.md") {
		if b.section != section || b.language != "yaml" {
			continue
		}
		decoder := yaml.NewDecoder(strings.NewReader(b.text))
		decoder.KnownFields(true)
		for {
			var document T
			err := decoder.Decode(&document)
			if errors.Is(err, io.EOF) {
				return list
			}
			if err != nil {
				t.Fatalf("install.md: %s: %v", section, err)
			}
			list = append(list, document)
		}
	}
	t.Fatalf("install.md has no YAML for %s", section)
	return nil
}

// gitHub is the recipe for GitHub Actions: a workflow with one job and one service.
func gitHub(t *testing.T) recipe {
	t.Helper()
	type service struct {
		Image string
		Ports []string
		Env   map[string]string
	}
	type job struct {
		RunsOn   string `yaml:"runs-on"`
		Services map[string]service
		Env      map[string]string
		Steps    []struct{ Name, If, Run string }
	}
	workflow := recipeIn[struct{ Jobs map[string]job }](t, "GitHub Actions")[0]
	found := workflow.Jobs["test"]
	r := recipe{container: found.Services["cysim"].Env, job: found.Env, host: "127.0.0.1"}
	if diff := slices.Compare(found.Services["cysim"].Ports, []string{"8780:8780"}); diff != 0 || found.RunsOn == "" || found.Services["cysim"].Image == "" {
		t.Errorf("%+v", found)
	}
	for _, step := range found.Steps {
		r.scripts = append(r.scripts, strings.ReplaceAll(step.Run, "${{ job.services.cysim.id }}", "cysim"))
	}
	if last := found.Steps[len(found.Steps)-1]; last.If != "always()" {
		t.Errorf("the leak check is skipped after a failure: %+v", last)
	}
	return r
}

// gitLab is the recipe for GitLab CI: a job with one service, which gets the variables of the job, too.
func gitLab(t *testing.T) recipe {
	t.Helper()
	type service struct {
		Name, Alias string
		Variables   map[string]string
	}
	type job struct {
		Image     string
		Services  []service
		Variables map[string]string
		Script    []string
	}
	found := recipeIn[map[string]job](t, "GitLab CI")[0]["test"]
	r := recipe{container: make(map[string]string), job: found.Variables, host: found.Services[0].Alias, scripts: found.Script}
	for _, variables := range []map[string]string{found.Variables, found.Services[0].Variables} {
		for name, value := range variables {
			r.container[name] = value
		}
	}
	return r
}

// object is a part of the manifest for Kubernetes.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Selector any
		Strategy struct{ Type string }
		Ports    []struct{ Port int }
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				EnableServiceLinks *bool `yaml:"enableServiceLinks"`
				Containers         []container
			}
		}
	}
}

type container struct {
	Name, Image     string
	ImagePullPolicy string `yaml:"imagePullPolicy"`
	Env             []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		ContainerPort int `yaml:"containerPort"`
	}
	ReadinessProbe struct {
		Exec           struct{ Command []string }
		PeriodSeconds  int `yaml:"periodSeconds"`
		TimeoutSeconds int `yaml:"timeoutSeconds"`
	} `yaml:"readinessProbe"`
	Resources       struct{ Limits map[string]string }
	SecurityContext map[string]any `yaml:"securityContext"`
}

// kubernetes is the manifest: its probe, and the leak check that its commands end with.
func kubernetes(t *testing.T) recipe {
	t.Helper()
	objects := make(map[string]object)
	for _, o := range recipeIn[object](t, "kind and Kubernetes") {
		objects[o.Kind] = o
		if o.Metadata.Name != "cysim" || o.APIVersion == "" {
			t.Errorf("%+v", o)
		}
	}
	c := objects["Deployment"].Spec.Template.Spec.Containers[0]
	if port := objects["Service"].Spec.Ports[0].Port; port != 8780 || c.Ports[0].ContainerPort != port {
		t.Errorf("port %d of the Service, ports %+v of the container", port, c.Ports)
	}
	r := recipe{container: make(map[string]string), job: gitLab(t).job, host: objects["Service"].Metadata.Name}
	for _, variable := range c.Env {
		from := variable.ValueFrom.SecretKeyRef
		r.container[variable.Name] = variable.Value + objects["Secret"].StringData[from.Key]
	}
	r.scripts = []string{"docker exec cysim " + strings.Join(c.ReadinessProbe.Exec.Command, " ")}
	commands := snippets(t, "install.md", "sh")
	for line := range strings.Lines(commands[len(commands)-1]) {
		if check, found := strings.CutPrefix(line, "kubectl exec deployment/cysim -- "); found {
			r.scripts = append(r.scripts, "docker exec cysim "+check)
		}
	}
	return r
}

// imageOf returns the environment and the command of the image of a release.
func imageOf(t *testing.T) (env, command []string) {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{"cysim", "LICENSE"} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(dir, "image.tar")
	out, err := exec.CommandContext(t.Context(), "go", "run", "../internal/ociimage", "--to", to, "--name", "cysim:test", "amd64="+dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for archive := tar.NewReader(file); ; {
		if _, err := archive.Next(); err != nil {
			t.Fatalf("the image has no configuration: %v", err)
		}
		var image struct {
			Config struct{ Env, Entrypoint []string }
		}
		if json.NewDecoder(archive).Decode(&image) == nil && image.Config.Entrypoint != nil {
			return image.Config.Env, image.Config.Entrypoint
		}
	}
}

// startContainer starts cysim as a container does: with the environment of the image and of a recipe, and nothing else. It
// returns the port, and the whole environment.
func startContainer(t *testing.T, bin string, set map[string]string) (port string, env []string) {
	t.Helper()
	env, command := imageOf(t)
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	for i, variable := range env {
		if variable == "CYSIM_LISTEN=0.0.0.0:8780" {
			env[i] = "CYSIM_LISTEN=0.0.0.0:0" // tests run at once
		}
	}
	process := exec.Command(filepath.Join(bin, command[0]), command[1:]...)
	process.Env = env
	var stderr bytes.Buffer
	process.Stderr = &stderr
	stdout, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if address, found := strings.CutPrefix(lines.Text(), "export CYSIM_URL=http://127.0.0.1:"); found {
			port = address
		}
		if strings.HasPrefix(lines.Text(), "export CYSIM_PID=") {
			return port, env
		}
	}
	t.Fatalf("cysim with %v does not start: %s", set, &stderr)
	return "", nil
}

// login logs in with the variables of a job, whose host is found at 127.0.0.1.
func login(t *testing.T, job map[string]string, port string) *gophercloud.ProviderClient {
	t.Helper()
	provider, err := openstack.NewClient(atPort(job["OS_AUTH_URL"], port))
	if err != nil {
		t.Fatal(err)
	}
	provider.HTTPClient.Transport = &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
	}}
	err = openstack.Authenticate(t.Context(), provider, gophercloud.AuthOptions{
		IdentityEndpoint: atPort(job["OS_AUTH_URL"], port), Username: job["OS_USERNAME"], Password: job["OS_PASSWORD"],
		DomainName: job["OS_USER_DOMAIN_NAME"], TenantName: job["OS_PROJECT_NAME"], AllowReauth: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

// atPort replaces the port of the recipes.
func atPort(text, port string) string { return strings.ReplaceAll(text, ":8780", ":"+port) }

func TestTheRecipesOfCIRun(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	for name, r := range map[string]recipe{"GitHub": gitHub(t), "GitLab": gitLab(t), "Kubernetes": kubernetes(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin, err := buildCysim()
			if err != nil {
				t.Fatal(err)
			}
			help, err := exec.CommandContext(t.Context(), filepath.Join(bin, "cysim"), "serve", "--help").Output()
			if err != nil {
				t.Fatal(err)
			}
			for variable := range r.container {
				flag, ours := strings.CutPrefix(variable, "CYSIM_")
				if flag = strings.ToLower(strings.ReplaceAll(flag, "_", "-")); ours && !strings.Contains(string(help), "--"+flag) {
					t.Errorf("%s sets no flag of cysim serve", variable)
				}
			}
			port, env := startContainer(t, bin, r.container)
			provider := login(t, r.job, port)
			client, err := cyborgclient.New(provider)
			if err != nil {
				t.Fatal(err)
			}
			if u, err := url.Parse(client.Service().Endpoint); err != nil || u.Hostname() != r.host {
				t.Errorf("the catalog leads a job to %v, want %s", u, r.host)
			}
			for _, script := range r.scripts {
				if out, err := runStep(t, r, bin, port, env, script); err != nil {
					t.Errorf("%s: %v: %s", script, err, out)
				}
			}
			if _, err := client.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "gpu"}); err != nil {
				t.Fatal(err)
			}
			check := r.scripts[len(r.scripts)-1]
			if out, err := runStep(t, r, bin, port, env, check); err == nil || !regexp.MustCompile(`accelerator request|ARQ`).MatchString(out) {
				t.Errorf("%s with a leak: %v: %s", check, err, out)
			}
		})
	}
}

// runStep runs a script of a job. Its docker runs a command in the container.
func runStep(t *testing.T, r recipe, bin, port string, env []string, script string) (string, error) {
	t.Helper()
	if clientPrograms.MatchString(script) && (!withClients || strings.HasPrefix(script, "pip ") || r.host != "127.0.0.1") {
		return "", nil // an index, or a name that only curl resolves
	}
	home := t.TempDir()
	docker := "#!/bin/sh\nshift 2\nexec env -i " + atPort(quoted(env), port) + ` PATH="$(dirname "$(command -v cysim)")" "$@"` + "\n"
	err := errors.Join(os.WriteFile(filepath.Join(home, ".curlrc"), []byte("connect-to = \"cysim:"+port+":127.0.0.1:"+port+"\"\n"), 0o600),
		os.WriteFile(filepath.Join(home, "docker"), []byte(docker), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "bash", "-e", "-o", "pipefail", "-c", atPort(script, port))
	command.Env = []string{"HOME=" + home, "PATH=" + home + ":" + bin + ":/usr/bin:/bin"}
	for name, value := range r.job {
		command.Env = append(command.Env, name+"="+atPort(value, port))
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

// quoted are words of a shell.
func quoted(list []string) string {
	var text []string
	for _, word := range list {
		text = append(text, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	return strings.Join(text, " ")
}

// The page gives the action inputs that it has.
func TestTheActionHasTheInputsOfThePage(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var action struct{ Inputs map[string]any }
	var steps []struct {
		Uses string
		With map[string]string
	}
	if err := errors.Join(yaml.Unmarshal(data, &action), yaml.Unmarshal([]byte(snippets(t, "install.md", "yaml")[0]), &steps)); err != nil {
		t.Fatal(err)
	}
	given := make(map[string]any)
	for _, step := range steps {
		for name, value := range step.With {
			if step.Uses == "./gocyborg" {
				given[name] = value
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(given)), slices.Sorted(maps.Keys(action.Inputs)); !slices.Equal(got, want) {
		t.Errorf("install.md gives %v, action.yml has %v", got, want)
	}
}
