//go:build keycloak

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keycloakVersion is a version that runs on Java 17.
const keycloakVersion = "26.7.3"

// keycloak is a Keycloak with the realm ops of testdata/keycloak-realm.json. The passwords of
// its users are their names. Its database is in memory.
type keycloak struct {
	t             *testing.T
	home, address string
	command       *exec.Cmd
	done          chan struct{}
}

// newKeycloak unpacks Keycloak, but does not start it. Maven downloads Keycloak on the first run.
func newKeycloak(t *testing.T) *keycloak {
	t.Helper()
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			require.NotEqual(t, "true", os.Getenv("CI"), "%s is not in PATH", tool)
			t.Skipf("SKIPPED: %s is not in PATH", tool)
		}
	}
	dir := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack",
		"-Dartifact=org.keycloak:keycloak-quarkus-dist:"+keycloakVersion+":zip", "-DoutputDirectory="+dir)
	unpack.Dir = dir // Maven writes marker files into its working directory
	output, err := unpack.CombinedOutput()
	require.NoError(t, err, "%s", output)

	k := &keycloak{t: t, home: filepath.Join(dir, "keycloak-"+keycloakVersion), address: freeAddress(t)}
	realm, err := os.ReadFile("testdata/keycloak-realm.json")
	require.NoError(t, err)
	imported := filepath.Join(k.home, "data", "import")
	require.NoError(t, os.MkdirAll(imported, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(imported, "realm.json"), realm, 0o600))
	return k
}

// issuer is the URL of a realm.
func (k *keycloak) issuer(realm string) string { return "http://" + k.address + "/realms/" + realm }

// start starts Keycloak and waits until the realm answers.
func (k *keycloak) start() {
	k.t.Helper()
	log := &lockedBuffer{}
	k.command = exec.Command(filepath.Join(k.home, "bin", "kc.sh"), "start-dev", "--import-realm", "--db=dev-mem",
		"--http-host=127.0.0.1", "--http-port="+port(k.address))
	k.command.Env = append(os.Environ(), "JAVA_OPTS=-Xms64m -Xmx400m -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
		"KC_BOOTSTRAP_ADMIN_USERNAME=admin", "KC_BOOTSTRAP_ADMIN_PASSWORD=admin")
	k.command.Stdout, k.command.Stderr = log, log
	k.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the script starts Java
	require.NoError(k.t, k.command.Start())
	k.done = make(chan struct{})
	go func() {
		_ = k.command.Wait()
		close(k.done)
	}()
	k.t.Cleanup(func() {
		k.stop()
		if k.t.Failed() {
			k.t.Logf("Keycloak said:\n%s", log.tail(6000))
		}
	})
	require.Eventually(k.t, func() bool { return k.ended() || k.answers() }, 3*time.Minute, 200*time.Millisecond)
	require.False(k.t, k.ended(), "Keycloak ended by itself")
}

func (k *keycloak) answers() bool {
	response, err := http.Get(k.issuer("ops") + "/.well-known/openid-configuration")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (k *keycloak) ended() bool {
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}

// stop ends Keycloak. After ten seconds it kills Keycloak.
func (k *keycloak) stop() {
	if k.ended() {
		return
	}
	group := -k.command.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-k.done:
	case <-time.After(10 * time.Second):
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-k.done
}

// login returns the tokens that a user gets for a client of the realm ops.
func (k *keycloak) login(client, user string) (access, refresh string) {
	k.t.Helper()
	return k.tokens("ops", url.Values{"grant_type": {"password"}, "client_id": {client}, "username": {user}, "password": {user}})
}

// robot returns an access token of the client robot.
func (k *keycloak) robot() string {
	k.t.Helper()
	access, _ := k.tokens("ops", url.Values{"grant_type": {"client_credentials"}, "client_id": {"robot"}, "client_secret": {"robot"}})
	return access
}

// administrator returns an access token of the realm master. It is valid for a minute.
func (k *keycloak) administrator() string {
	k.t.Helper()
	access, _ := k.tokens("master", url.Values{"grant_type": {"password"}, "client_id": {"admin-cli"}, "username": {"admin"}, "password": {"admin"}})
	return access
}

func (k *keycloak) tokens(realm string, form url.Values) (access, refresh string) {
	k.t.Helper()
	request, err := http.NewRequestWithContext(k.t.Context(), http.MethodPost,
		k.issuer(realm)+"/protocol/openid-connect/token", strings.NewReader(form.Encode()))
	require.NoError(k.t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var answer struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	k.do(request, &answer)
	require.NotEmpty(k.t, answer.Access)
	return answer.Access, answer.Refresh
}

// keyProvider is a component of a realm that has keys.
type keyProvider struct {
	ID           string              `json:"id,omitempty"`
	Name         string              `json:"name"`
	ProviderID   string              `json:"providerId"`   //nolint:tagliatelle // Keycloak names it
	ProviderType string              `json:"providerType"` //nolint:tagliatelle // as above
	Config       map[string][]string `json:"config"`
}

const keyProviders = "org.keycloak.keys.KeyProvider"

// signer returns the provider of the key that signs tokens in a new realm.
func (k *keycloak) signer() keyProvider {
	k.t.Helper()
	var providers []keyProvider
	k.admin(http.MethodGet, "components?type="+keyProviders, nil, &providers)
	for _, provider := range providers {
		if provider.ProviderID == "rsa-generated" {
			return provider
		}
	}
	require.Fail(k.t, "no key provider", "%v", providers)
	return keyProvider{}
}

// addSigner adds a key, which signs all tokens from now on.
func (k *keycloak) addSigner() {
	k.t.Helper()
	k.admin(http.MethodPost, "components", keyProvider{
		Name: "next", ProviderID: "rsa-generated", ProviderType: keyProviders, Config: map[string][]string{"priority": {"1000"}},
	}, nil)
}

// disable disables the key of a provider.
func (k *keycloak) disable(provider keyProvider) {
	k.t.Helper()
	provider.Config["enabled"] = []string{"false"}
	k.admin(http.MethodPut, "components/"+provider.ID, provider, nil)
}

// admin calls the admin API of the realm ops.
func (k *keycloak) admin(method, path string, body, answer any) {
	k.t.Helper()
	encoded, err := json.Marshal(body)
	require.NoError(k.t, err)
	request, err := http.NewRequestWithContext(k.t.Context(), method, "http://"+k.address+"/admin/realms/ops/"+path, bytes.NewReader(encoded))
	require.NoError(k.t, err)
	request.Header.Set("Authorization", "Bearer "+k.administrator())
	request.Header.Set("Content-Type", "application/json")
	k.do(request, answer)
}

// do sends a request, and decodes the response into answer unless answer is nil.
func (k *keycloak) do(request *http.Request, answer any) {
	k.t.Helper()
	response, err := http.DefaultClient.Do(request)
	require.NoError(k.t, err)
	defer func() { _ = response.Body.Close() }()
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	require.NoError(k.t, err)
	require.Less(k.t, response.StatusCode, 300, "%s: %s", request.URL, body.String())
	if answer != nil {
		require.NoError(k.t, json.Unmarshal(body.Bytes(), answer))
	}
}

// keyOf returns the id of the key that signed a token.
func keyOf(t *testing.T, token string) string {
	t.Helper()
	encoded, _, _ := strings.Cut(token, ".")
	decoded, err := base64.RawURLEncoding.DecodeString(encoded)
	require.NoError(t, err)
	var header struct {
		KeyID string `json:"kid"`
	}
	require.NoError(t, json.Unmarshal(decoded, &header))
	require.NotEmpty(t, header.KeyID)
	return header.KeyID
}
