// A file of its own, because the page's security policy refuses inline scripts.
const base = new URL(".", location.href).pathname; // a proxy may serve the API below a path
const spec = await (await fetch("openapi.json")).json();
spec.servers = [{ url: base === "/" ? base : base.slice(0, -1) }];
SwaggerUIBundle({
  spec,
  dom_id: "#swagger-ui",
  deepLinking: true,
  defaultModelsExpandDepth: -1, // hides the list of schemas
  validatorUrl: null, // no call to another host
});
