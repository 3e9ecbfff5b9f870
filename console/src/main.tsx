import "uplot/dist/uPlot.min.css";
import { type JSX, render } from "preact";
import { needsToken, setToken, token } from "./api.ts";
import { home, route } from "./route.ts";
import { StreamView } from "./stream.tsx";
import { StreamsView } from "./streams.tsx";
import { theme, turnTheme } from "./theme.ts";

function App(): JSX.Element {
  const { stream, subscription } = route.value;
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById("content")?.focus(); }}>Skip to the content</a>
      <nav aria-label="Console">
        <a class="brand" href={home}><img src="/console/icon.svg" alt="" width="22" height="22" /> rankcast</a>
        <span class="grow" />
        <a href="/docs">Commands</a>
        <button type="button" class="plain" onClick={turnTheme} aria-label={theme.value === "dark" ? "Light colours" : "Dark colours"}>
          {theme.value === "dark" ? "☀" : "☾"}
        </button>
        <button type="button" class="plain" onClick={() => (needsToken.value = !needsToken.value)} aria-expanded={needsToken.value}>
          {token.value ? "Token ✓" : "Token"}
        </button>
      </nav>
      {needsToken.value && <TokenForm />}
      <div id="content" tabIndex={-1} key={stream ?? ""}>
        {stream === null ? <StreamsView /> : <StreamView name={stream} selected={subscription} />}
      </div>
    </>
  );
}

function TokenForm(): JSX.Element {
  return (
    <form
      class="token"
      onSubmit={(event) => {
        event.preventDefault();
        setToken(String(new FormData(event.currentTarget).get("token") ?? "").trim());
      }}
    >
      <label>
        The service wants a token (<code>rankcast token add</code>), kept for this tab alone: <input name="token" type="password" autocomplete="off" />
      </label>
      <button type="submit" class="primary">Use it</button>
      {token.value && <button type="button" onClick={() => setToken("")}>Forget it</button>}
    </form>
  );
}

const root = document.getElementById("app");
if (root) render(<App />, root);
