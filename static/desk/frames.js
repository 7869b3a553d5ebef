/* A table or picture that is wider than its frame can be scrolled by keyboard: the frame takes the focus. */
(() => {
  const reach = () => document.querySelectorAll(".scrollx").forEach((frame) => {
    const wider = frame.scrollWidth > frame.clientWidth;
    if (wider && !frame.hasAttribute("tabindex")) {
      frame.dataset.reached = "";
      frame.tabIndex = 0;
      frame.setAttribute("role", "group");
      frame.setAttribute("aria-label", "Wider than the screen: scrolls sideways");
    } else if (!wider && "reached" in frame.dataset) {
      delete frame.dataset.reached;
      ["tabindex", "role", "aria-label"].forEach((name) => frame.removeAttribute(name));
    }
  });

  document.addEventListener("DOMContentLoaded", () => {
    reach();
    window.addEventListener("resize", reach);
    // Parts of a page change by themselves.
    new MutationObserver(reach).observe(document.body, { childList: true, subtree: true });
  });
})();
