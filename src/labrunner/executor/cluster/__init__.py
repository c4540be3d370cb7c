"""Carrying out attempts on the nodes of a Ray cluster, behind the executor's door.

Here, where the run lies: `cluster_executor`, `placement`, `members`, `hearing`, `homecoming`, `briefing`,
`delivery`, `rayport`. A node's end: `onnode`. Both: `tidings`, `parcels`, `strongbox`, `wire`.
"""
