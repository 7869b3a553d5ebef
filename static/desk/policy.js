/* The form of a policy shows what its rule needs. */
(() => {
  const show = (rule) => document.querySelectorAll("[data-rules]").forEach((field) => {
    field.hidden = !field.dataset.rules.split(" ").includes(rule.value);
  });
  document.addEventListener("DOMContentLoaded", () => {
    const rule = document.querySelector("#policy-form select[name=rule]");
    if (!rule) return;
    rule.addEventListener("change", () => show(rule));
    show(rule);
  });
})();
