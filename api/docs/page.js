// A file of its own, because the page's security policy refuses inline scripts.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  defaultModelsExpandDepth: -1, // hides the list of schemas
  validatorUrl: null, // no call to another host
});
