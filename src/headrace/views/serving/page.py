"""A page for people who open the server's address in a browser."""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Headrace views</title>
<meta name="viewport" content="width=device-width">
<style>
 body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
 table { border-collapse: collapse; width: 100% }
 td, th { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8884 }
 code, pre { font: 13px/1.4 ui-monospace, monospace }
 pre { overflow: auto; max-height: 24rem }
 :root { color-scheme: light dark }
</style></head><body>
<h1>Views</h1><table id="views"><thead><tr><th>view</th><th>rows</th><th>lag</th><th>position</th>
<th></th></tr></thead><tbody></tbody></table>
<h2 id="title"></h2><pre id="feed"></pre>
<h2>What can be asked</h2><table id="paths"><tbody></tbody></table>
<p><a href="openapi.json">openapi.json</a> · <a href="metrics">metrics</a></p>
<script>
const token = new URLSearchParams(location.search).get("access_token");
const ask = path => path + (token ? (path.includes("?") ? "&" : "?") + "access_token=" +
  encodeURIComponent(token) : "");
const cell = (row, text) => { const made = row.insertCell(); made.textContent = text; return made };
let source;
function follow(name) {
  if (source) source.close();
  const shown = document.getElementById("feed");
  document.getElementById("title").textContent = "Feed of " + name; shown.textContent = "";
  source = new EventSource(ask("feeds/" + encodeURIComponent(name)));
  for (const kind of ["snapshot", "changes", "up-to-date", "must-refetch"])
    source.addEventListener(kind, event => {
      shown.textContent = (kind + " " + event.data + "\\n" + shown.textContent).slice(0, 20000) });
}
async function refresh() {
  const answer = await fetch(ask("views")), body = document.querySelector("#views tbody");
  if (!answer.ok) { body.textContent = (await answer.json()).error.message; return }
  body.textContent = "";
  for (const view of (await answer.json()).views) {
    const row = body.insertRow();
    cell(row, view.name); cell(row, view.rows); cell(row, view.error || view.lag);
    cell(row, view.position);
    const button = document.createElement("button"); button.textContent = "follow";
    button.onclick = () => follow(view.name); row.insertCell().append(button);
  }
}
fetch("openapi.json").then(answer => answer.json()).then(document_ => {
  for (const [path, methods] of Object.entries(document_.paths))
    for (const [method, about] of Object.entries(methods))
      if (about.summary) {
        const row = document.querySelector("#paths tbody").insertRow();
        cell(row, method.toUpperCase() + " " + path);
        cell(row, about.summary + " " + about.parameters.map(each => each.name).join(", "));
      }
});
refresh(); setInterval(refresh, 2000);
</script></body></html>
"""
