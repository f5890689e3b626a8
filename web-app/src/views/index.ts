// The views beside those of the sections, which are drawn from the document alone.

import type { View } from "../app";
import { allTables } from "./all_tables";
import { timeline } from "../timeline";
import { overview } from "./overview";
import { rulePage } from "./rule_page";
import { whatIf } from "./what_if";

export const VIEWS: readonly View[] = [overview, whatIf, timeline, allTables, rulePage];
