// The address that a finding has of its own: `#finding=RULE-N`, N counting the findings of a rule.

import type { App } from "../app";
import type { Finding } from "../document/types";

/** Empty for a finding of no report. */
export function findingKey(finding: Finding, app: App): string {
  if (app.document.schema !== "stepscope-report") return "";
  const same = app.document.findings.filter((one) => one.rule === finding.rule);
  const at = same.findIndex((one) => one === finding || (one.title === finding.title && String(one.ranks) === String(finding.ranks)));
  return at < 0 ? "" : `${finding.rule}-${at + 1}`;
}
