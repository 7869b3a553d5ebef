/* A page that changes by itself. The server says when it would look different (server-sent events); then its live
   part is asked for anew and laid over the old one: what is the same is not touched, so focus, scroll, what a
   person has opened and what they are writing stay. What is marked data-own loads its own content, when told that
   the page was drawn. Without the stream it asks every few seconds, and now and then
   in any case, for ages and deadlines. Nothing is asked for while nobody sees the page, or updates are paused. */
(() => {
  const POLL_MS = 5000, ANEW_MS = 30000, AGAIN_MS = 20000;
  let stream = null, paused = false, asking = false, missed = false, asked = 0;

  const root = () => document.getElementById("live-page");
  const looking = () => !paused && document.visibilityState === "visible";
  const isOpen = () => stream !== null && stream.readyState === EventSource.OPEN;

  const sameKind = (was, now) => was.nodeType === now.nodeType && was.nodeName === now.nodeName
    && (was.id || "") === (now.id || "");

  const layAttributes = (was, now) => {
    for (const { name } of [...was.attributes]) {
      if (!now.hasAttribute(name) && name !== "open") was.removeAttribute(name);
    }
    for (const { name, value } of [...now.attributes]) {
      if (was.getAttribute(name) !== value && name !== "open") was.setAttribute(name, value);
    }
  };

  const layOver = (was, now) => {
    if (was.nodeType !== Node.ELEMENT_NODE) {
      if (was.data !== now.data) was.data = now.data;
      return;
    }
    if (was.hasAttribute("data-own") || was.isEqualNode(now)) return;
    layAttributes(was, now);
    let at = was.firstChild;
    for (const next of [...now.childNodes]) {
      const named = next.id && [...was.children].find((one) => one.id === next.id);
      if (named && named !== at) { was.insertBefore(named, at); at = named; }
      if (at && sameKind(at, next)) { layOver(at, next); at = at.nextSibling; } else was.insertBefore(next, at);
    }
    while (at) { const rest = at.nextSibling; at.remove(); at = rest; }
  };

  const draw = (html) => {
    const now = new DOMParser().parseFromString(html, "text/html").getElementById("live-page");
    const focused = document.activeElement?.id;
    layOver(root(), document.importNode(now, true));
    if (focused && document.activeElement?.id !== focused) {
      document.getElementById(focused)?.focus({ preventScroll: true });
    }
    showPause();
    document.body.dispatchEvent(new Event("live-drawn"));
  };

  const ask = async (known) => {
    if (!looking()) return;
    if (asking) { missed = true; return; }
    asking = true;
    asked = Date.now();
    try {
      const address = root().dataset.live;
      const answer = await fetch(known ? `${address}?sign=${known}` : address, { credentials: "same-origin" });
      if (new URL(answer.url).pathname !== address || answer.status === 404) location.reload();
      else if (answer.status === 200) draw(await answer.text());
    } catch { /* the server is away for a moment: the next turn asks again */ } finally {
      asking = false;
      if (missed) { missed = false; ask(""); }
    }
  };

  const follow = () => {
    if (stream || !looking() || !window.EventSource) return;
    stream = new EventSource(root().dataset.changes);
    stream.onmessage = ({ data }) => { if (data !== root().dataset.sign) ask(""); };
    stream.onerror = () => {
      if (stream?.readyState !== EventSource.CLOSED) return;
      stream = null;
      setTimeout(follow, AGAIN_MS);
    };
  };

  const leave = () => { stream?.close(); stream = null; };

  const turn = () => {
    if (Date.now() - asked >= ANEW_MS) ask("");
    else if (!isOpen()) ask(root().dataset.sign);
  };

  const showPause = () => {
    const button = document.getElementById("live-pause");
    if (!button) return;
    button.hidden = false;
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Refresh this page" : "Freeze this page";
  };

  const goOn = () => { if (looking()) { follow(); ask(root().dataset.sign); } else leave(); };

  const showTarget = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const fold = target && target.closest("details");
    if (!fold) return;
    fold.open = true;
    fold.scrollIntoView({ block: "nearest" });
    fold.querySelector("input:not([type=hidden]),select,textarea")?.focus({ preventScroll: true });
  };

  const showNow = () => {
    const frame = document.getElementById("dag");
    const now = frame?.querySelector("g.bad, g.you, g.late, g.run");
    if (!now || frame.scrollWidth <= frame.clientWidth) return;
    const box = now.getBoundingClientRect(), around = frame.getBoundingClientRect();
    frame.scrollLeft += (box.left + box.right - around.left - around.right) / 2;
  };

  document.addEventListener("DOMContentLoaded", () => {
    showTarget();
    showNow();
    window.addEventListener("hashchange", showTarget);
    if (!root()) return;
    asked = Date.now();
    showPause();
    follow();
    setInterval(turn, POLL_MS);
    document.addEventListener("visibilitychange", goOn);
    window.addEventListener("pagehide", leave);
    document.body.addEventListener("click", (event) => {
      if (event.target.closest("#live-pause")) { paused = !paused; showPause(); goOn(); }
    });
  });
})();
