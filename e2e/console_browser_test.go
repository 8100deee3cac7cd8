//go:build console

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	dom "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// The browser is the system's Chromium. chromedp drives it by the browser's protocol. Unlike other libraries, chromedp
// never downloads a browser.

// display has the screen and the preferences of a person.
type display struct {
	width, height int64
	language      string // en or ja
	dark          bool
	withoutScript bool
}

var (
	desk  = display{width: 1280, height: 900, language: "en"}
	phone = display{width: 360, height: 740, language: "en"}
)

// tab is a page of the browser, with cookies of its own.
type tab struct {
	context.Context

	t    *testing.T
	base string

	mu sync.Mutex
	// said has the messages in the console of the browser: errors of the page, and requests that the
	// security policy refused.
	said []string
	// asked has the addresses that the page loaded. bytes is the number of transferred bytes since the last visit.
	asked []string
	bytes int64
	// status is the status of the last document.
	status int64
}

// newBrowser starts a browser for the tabs of a test. Without Chromium the test is skipped; with CI=true it fails.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		require.NotEqual(t, "true", os.Getenv("CI"), "chromium is not in PATH")
		t.Skip("SKIPPED: chromium is not in PATH")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	_, err = chromedp.Run(browser, chromedp.Evaluate[int]("1"))
	require.NoError(t, err)
	return browser
}

// newTab opens a tab with cookies of its own.
func newTab(browser context.Context, t *testing.T, base string, s display) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{Context: ctx, t: t, base: base}
	require.NoError(t, chromedp.Listen(ctx, b.hear)) // opens the tab
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	tell(b, network.Enable, network.EnableParams{})
	tell(b, runtime.Enable, cdp.Empty{})
	tell(b, dom.Enable, dom.EnableParams{})
	tell(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: s.width, Height: s.height, DeviceScaleFactor: 1, Mobile: s.width < 600,
	})
	tell(b, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: s.width < 600})
	tell(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	tell(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": s.language}})
	tell(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: s.withoutScript})
	return b
}

// tell sends a command of the protocol.
func tell[P, R any](b *tab, command cdp.Command[P, R], parameters P) R {
	b.t.Helper()
	return run(b, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, command, parameters) })
}

// run runs an action, and ends the test if it fails or takes more than half a minute.
func run[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b, 30*time.Second)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	require.NoError(b.t, err)
	return result
}

func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		b.said = append(b.said, event.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		for _, argument := range event.Args {
			b.said = append(b.said, string(argument.Value))
		}
	case *dom.EventJavascriptDialogOpening:
		b.said = append(b.said, "dialog: "+event.Message)
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, event.Request.URL)
	case *network.EventResponseReceived:
		if event.Type == network.ResourceTypeDocument {
			b.status = event.Response.Status
		}
	case *network.EventLoadingFinished:
		b.bytes += int64(event.EncodedDataLength)
	}
}

// visit opens a path.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.mu.Lock()
	b.bytes = 0
	b.mu.Unlock()
	run(b, chromedp.Navigate(b.base+path))
}

// text is the visible text of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return run(b, chromedp.Text(chromedp.CSS(selector)))
}

// path is the path of the current page, with its query.
func (b *tab) path() string {
	b.t.Helper()
	return strings.TrimPrefix(run(b, chromedp.Location()), b.base)
}

// click scrolls to an element and clicks on it.
func (b *tab) click(selector string) {
	b.t.Helper()
	run(b, chromedp.Click(chromedp.CSS(selector)))
}

// fill replaces the text of a field.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	value[bool](b, fmt.Sprintf("document.querySelector(%q).value = '', true", selector))
	run(b, chromedp.SendKeys(chromedp.CSS(selector), text))
}

// arrives waits for a page whose path begins with the given path.
func (b *tab) arrives(path string) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("location.pathname.startsWith(%q) && document.readyState === 'complete'", path))
}

// shows waits for a text on the page.
func (b *tab) shows(text string) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// value computes an expression in the page.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](expression))
}

// eventually waits until an expression is true in the page, or in a page that follows.
func (b *tab) eventually(expression string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		holds, err := chromedp.Run(b, chromedp.Evaluate[bool](expression))
		return err == nil && holds
	}, 30*time.Second, 50*time.Millisecond, expression)
}

// press presses keys one after the other.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		run(b, chromedp.KeyEvent(key))
	}
}

// picture writes a screenshot of the whole page into .build/console.
func (b *tab) picture(name string) {
	b.t.Helper()
	content := run(b, chromedp.FullScreenshot(100))
	folder := filepath.Join("..", ".build", "console")
	require.NoError(b.t, os.MkdirAll(folder, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), content, 0o644))
}

// axe is the script of axe-core, which `make test-console` downloads from npm.
var axe = sync.OnceValues(func() (string, error) {
	content, err := os.ReadFile(filepath.Join("..", ".build", "axe", "package", "axe.min.js"))
	return string(content), err
})

// violation is a rule of accessibility that a page breaks, with the elements that break it.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"` //nolint:tagliatelle // axe names it
	} `json:"nodes"`
}

// violations returns the rules of WCAG 2.2 AA and of good practice that the page breaks, as axe finds them. The browser's
// protocol runs the script of axe, because the policy of the page would refuse the script.
func (b *tab) violations() []violation {
	b.t.Helper()
	script, err := axe()
	require.NoError(b.t, err, "run `make test-console`, which brings axe")
	run(b, chromedp.Evaluate[chromedp.Void](script+"; void 0"))
	const look = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
		.then((r) => JSON.stringify(r.violations))`
	text := run(b, chromedp.Evaluate[string](look, chromedp.EvalAwaitPromise))
	var found []violation
	require.NoError(b.t, json.Unmarshal([]byte(text), &found))
	return found
}
